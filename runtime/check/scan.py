"""Argument validation for `rnnc.scan`: its tensors must match the cell and each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.declare import Param, State
from ...cellspec.errors import CellError, kind_of
from ...cellspec.named import named_cell
from ...errors import TensorError
from ..call.marks import constant_in_graphs
from ..call.plain import check_memory
from ..call.tensors import DTYPES, ScanInputs
from .tensor import check_like, check_strided, check_tensor, shape_error
from .unweighted import check_unweighted


def check_is_cell(cell: Any) -> CellSpec:
    """Return the argument `cell`, given as a cell or by its name."""
    if isinstance(cell, CellSpec):
        return cell
    if isinstance(cell, str):
        _find(cell)
        return _named[cell]
    write = "a function decorated with @rnnc.cell"
    if isinstance(cell, list | tuple):
        write = "an rnnc.RNN for each cell in an nn.ModuleList, one after the other"
    raise TensorError("cell", kind_of(cell), "a cell, the same for all layers", write)


# A graph can guard attributes of an item of a dictionary, but none of a constant.
_named: dict[str, CellSpec] = {}


@constant_in_graphs
def _find(name: str) -> None:
    try:
        _named[name] = named_cell(name)
    except CellError as error:
        raise TensorError(error.where, error.found, error.wanted, error.write) from error


def params_in_order(cell: CellSpec, params: Any, wx: Any) -> tuple[Any, ...]:
    """Return the values of `params`, a mapping with exactly the cell's params, in the cell's order.

    An error in the argument `wx` is reported before one in `params`.
    """
    if params is None:
        params = {}
    if torch.compiler.is_compiling() or _are_params(cell, params):
        return tuple([params[p.name] for p in cell.params])
    check_wx(cell, wx)
    names = [p.name for p in cell.params]
    raise TensorError(
        "params",
        str(list(params)) if isinstance(params, Mapping) else kind_of(params),
        f"a dict with a tensor for each of {names}",
        _params_advice(cell, wx),
    )


def check_scan(cell: CellSpec, inputs: ScanInputs) -> None:
    """Check the tensors of `rnnc.scan` against cell and each other, besides the count of params."""
    wx: Any = inputs.wx
    sized = isinstance(wx, Tensor) and wx.ndim == 5 and wx.shape[4] == len(cell.input_gates)
    dense = sized and wx.layout == torch.strided and wx.dtype in DTYPES
    if not (dense and wx.shape[2] * wx.shape[3]):
        check_wx(cell, wx)
    if not _are_states(inputs.initial_states, len(cell.states)):
        check_count(inputs.initial_states, [s.name for s in cell.states])
    dtype, device = wx.dtype, wx.device
    for tensor, shape, what in _wanted(cell, inputs):
        if tensor is None and (shape is None or what == "b"):
            continue
        alike = isinstance(tensor, Tensor) and tensor.shape == shape
        if not (alike and tensor.dtype == dtype and tensor.device == device):
            if isinstance(what, str):
                _check_weight(cell, what, tensor, shape, wx)
                continue
            name, axes = f"states[{what.name}]", "(B, N, D)"
            if isinstance(what, Param):
                name, axes = f"params[{what.name!r}]", "(N, D)"
            check_like(name, tensor, shape, f"{shape}, {axes}", "wx", wx)
    if inputs.unweighted or cell.inputs:
        check_unweighted(cell, inputs.unweighted, inputs.wx)


def check_operator(cell: CellSpec, inputs: ScanInputs) -> None:
    """Check the tensors of a direction of a layer; kernels read all of them by address."""
    wx = inputs.wx
    check_scan(cell, inputs)
    for tensor in inputs.present():
        # `check_scan` allows other dtypes under autocast; no kernel does.
        if tensor.dtype != wx.dtype:
            raise TensorError(
                "rnnc::call",
                f"tensors of {tensor.dtype} and {wx.dtype}",
                "one dtype",
                f"every tensor as .to({wx.dtype})",
            )
        check_memory("rnnc::call", tensor)


# A tensor, its required shape (None if no gate uses it), and what it is: the name of a weight, or a
# param or state of the cell.
_Wanted = tuple[Any, tuple[int, ...] | None, str | Param | State]


def _wanted(cell: CellSpec, inputs: ScanInputs) -> list[_Wanted]:
    """Return all tensors except wx, with the shapes that follow from the shape of wx."""
    batch, _, heads, dim, _ = inputs.wx.shape
    dense, diagonal, bias = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)
    plane, rows = (heads, dim), (batch, heads, dim)
    states = zip(inputs.initial_states, cell.states, strict=True)
    return [
        (inputs.R, (dense, *plane, dim) if dense else None, "R"),
        (inputs.R_diag, (diagonal, *plane) if diagonal else None, "R_diag"),
        (inputs.b, (bias, *plane) if bias else None, "b"),
        *[(tensor, plane, p) for tensor, p in zip(inputs.params, cell.params, strict=True)],
        *[(tensor, rows, state) for tensor, state in states],
    ]


def _are_params(cell: CellSpec, params: Any) -> bool:
    return (
        isinstance(params, Mapping)
        and len(params) == len(cell.params)
        and all(p.name in params for p in cell.params)
    )


def _are_states(states: Any, count: int) -> bool:
    return isinstance(states, tuple | list) and len(states) == count


def check_wx(cell: CellSpec, wx: Any) -> None:
    """Check the type, shape and dtype of the argument `wx`."""
    gates = cell.input_gates
    wanted = f"(B, T, N, D, {len(gates)}), the gates {', '.join(gates)} last"
    check_tensor("wx", wx, wanted)
    check_strided("wx", wx)
    if wx.ndim != 5 or wx.shape[-1] != len(gates):
        raise shape_error("wx", wx, wanted, "wx = x_projected.view(B, T, heads, head_dim, gates)")
    if wx.dtype not in DTYPES:
        wanted = f"a floating-point dtype: {', '.join(DTYPES.values())}"
        raise TensorError("wx", f"dtype {wx.dtype}", wanted, "wx.float()")
    if not wx.shape[2] * wx.shape[3]:
        raise shape_error("wx", wx, "at least one head and one unit", "wx with N > 0 and D > 0")


def _check_weight(
    cell: CellSpec, name: str, tensor: Any, shape: tuple[int, ...] | None, wx: Tensor
) -> None:
    if shape is None:
        if tensor is not None:
            raise TensorError(
                name, f"a tensor of {tuple(tensor.shape)}", "none: no gate uses it", f"{name}=None"
            )
        return
    axes, rows = {
        "R": ("(Gr, N, D out, D in)", [f"{p.gate} from {p.source}" for p in cell.dense_pairs]),
        "R_diag": ("(Gd, N, D)", [f"{p.gate} from {p.source}" for p in cell.diagonal_pairs]),
        "b": ("(Gb, N, D)", list(cell.bias_gates)),
    }[name]
    wanted = f"{shape}, {axes}, in the order {', '.join(rows)}"
    if tensor is not None:
        check_like(name, tensor, shape, wanted, "wx", wx)
    elif name == "R":
        # Orthogonal, as rnnc.RNN starts.
        write = f"R = torch.linalg.qr(torch.randn{shape}).Q.to(wx)"
        raise TensorError(name, "None", wanted, write)
    elif name == "R_diag":
        raise TensorError(name, "None", wanted, f"R_diag = torch.rand{shape}.to(wx)")


def check_count(states: Any, names: Sequence[str], argument: str = "states") -> None:
    """Check that an argument is a tuple or list with one entry for each of `names`."""
    if not _are_states(states, len(names)):
        many = isinstance(states, tuple | list)
        raise TensorError(
            argument,
            f"{len(states)} of them" if many else kind_of(states),
            f"a tuple with a tensor for each of {', '.join(names)}",
            f"{argument}=({', '.join(names)},)",
        )


def _params_advice(cell: CellSpec, wx: Tensor) -> str:
    plane = tuple(wx.shape[2:4])
    each = (f"{p.name!r}: torch.full({plane}, {p.init}).to(wx)" for p in cell.params)
    return f"params={{{', '.join(each)}}}"
