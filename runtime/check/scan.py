"""Argument validation for `rnnc.scan`: its tensors must match the cell and each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
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
    given = {} if params is None else params
    names = [p.name for p in cell.params]
    is_mapping = isinstance(given, Mapping)
    if torch.compiler.is_compiling() or (is_mapping and given.keys() == set(names)):
        return tuple([given[name] for name in names])
    check_wx(cell, wx)
    plane = tuple(wx.shape[2:4])
    each = (f"{p.name!r}: torch.full({plane}, {p.init}).to(wx)" for p in cell.params)
    raise TensorError(
        "params",
        str(list(given)) if is_mapping else kind_of(given),
        f"a dict with a tensor for each of {names}",
        f"params={{{', '.join(each)}}}",
    )


def check_scan(cell: CellSpec, inputs: ScanInputs) -> None:
    """Check the tensors of `rnnc.scan` against cell and each other, besides the count of params."""
    wx: Any = inputs.wx
    sized = isinstance(wx, Tensor) and wx.ndim == 5 and wx.shape[4] == len(cell.input_gates)
    dense = sized and wx.layout == torch.strided and wx.dtype in DTYPES
    if not (dense and wx.shape[2] * wx.shape[3]):
        check_wx(cell, wx)
    check_count(inputs.initial_states, [s.name for s in cell.states])
    batch, _, heads, dim, _ = wx.shape
    plane, rows = (heads, dim), (batch, heads, dim)
    for name, tensor, count, matrix in (
        ("R", inputs.R, len(cell.dense_pairs), (dim,)),
        ("R_diag", inputs.R_diag, len(cell.diagonal_pairs), ()),
        ("b", inputs.b, len(cell.bias_gates), ()),
    ):
        if count or tensor is not None:
            _check_weight(cell, name, tensor, (count, *plane, *matrix), wx)
    for tensor, param in zip(inputs.params, cell.params, strict=True):
        check_like(f"params[{param.name!r}]", tensor, plane, "(N, D)", "wx", wx)
    for tensor, state in zip(inputs.initial_states, cell.states, strict=True):
        check_like(f"states[{state.name}]", tensor, rows, "(B, N, D)", "wx", wx)
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
    cell: CellSpec, name: str, tensor: Tensor | None, shape: tuple[int, ...], wx: Tensor
) -> None:
    """Raise a `TensorError` unless a weight fits; a bias may be left out."""
    if tensor is None and name == "b":
        return
    if tensor is not None and not shape[0]:
        found = f"a tensor of {tuple(tensor.shape)}"
        raise TensorError(name, found, "none: no gate uses it", f"{name}=None")
    rows: Any
    axes, rows, write = {
        # Orthogonal, as rnnc.RNN starts.
        "R": ("(Gr, N, D out, D in)", cell.dense_pairs, "torch.linalg.qr(torch.randn{}).Q.to(wx)"),
        "R_diag": ("(Gd, N, D)", cell.diagonal_pairs, "torch.rand{}.to(wx)"),
        "b": ("(Gb, N, D)", cell.bias_gates, ""),
    }[name]
    order = [row if isinstance(row, str) else f"{row.gate} from {row.source}" for row in rows]
    axes += f", in the order {', '.join(order)}"
    if tensor is None:
        raise TensorError(name, "None", f"{shape}, {axes}", f"{name} = {write.format(shape)}")
    check_like(name, tensor, shape, axes, "wx", wx)


def check_count(states: Any, names: Sequence[str], argument: str = "states") -> None:
    """Check that an argument is a tuple or list with one entry for each of `names`."""
    many = isinstance(states, tuple | list)
    if not many or len(states) != len(names):
        raise TensorError(
            argument,
            f"{len(states)} of them" if many else kind_of(states),
            f"a tuple with a tensor for each of {', '.join(names)}",
            f"{argument}=({', '.join(names)},)",
        )
