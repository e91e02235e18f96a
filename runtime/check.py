"""Bad tensors meet this door: every message names the argument, what came and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ..cellspec.cell import CellSpec
from ..cellspec.declare import Param, State
from ..cellspec.errors import kind_of
from ..codegen.shape import Dtype
from .errors import TensorError

Choice = TypeVar("Choice", bound=str)

# What a cell can be computed in.
DTYPES: dict[torch.dtype, Dtype] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}


def check_scan(
    cell: CellSpec,
    wx: Any,
    R: Any,
    b: Any,
    states: Any,
    R_diag: Any,
    params: Any,
) -> None:
    """Check the tensors of `rnnc.scan` against the cell and each other.

    Raises:
        TensorError: a tensor is missing, too many, of a wrong rank, size, dtype or device.
    """
    if not _fit(cell, wx, R, b, states, R_diag, params):
        _check_each(cell, wx, R, b, states, R_diag, params)


def check_operator(
    cell: CellSpec,
    wx: Tensor,
    R: Tensor | None,
    b: Tensor | None,
    initial: Sequence[Tensor],
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    over_time: Sequence[bool],
) -> None:
    """Check the tensors of `rnnc::scan`, which all kernels read by their address.

    Raises:
        TensorError: one is missing, too many, or does not fit.
    """
    names = [p.name for p in cell.params]
    if len(params) != len(names) or len(over_time) != len(cell.states):
        raise TensorError(
            "params and over_time",
            f"{len(params)} and {len(over_time)} of them",
            f"{len(names)} and {len(cell.states)} for {cell.name}",
            f"a param for each of {names}, a bool for each state",
        )
    named = dict(zip(names, params, strict=True))
    check_scan(cell, wx, R, b, list(initial), R_diag, named)
    for tensor in (wx, R, b, R_diag, *params, *initial):
        if tensor is None:
            continue
        # Autocast allows what no kernel takes.
        if tensor.dtype != wx.dtype:
            raise TensorError(
                "rnnc::scan",
                f"tensors of {tensor.dtype} and {wx.dtype}",
                "one dtype",
                f"every tensor as .to({wx.dtype})",
            )
        check_memory("rnnc::scan", tensor)


def check_memory(name: str, tensor: Tensor) -> None:
    """Refuse a tensor whose memory was given back, as fully sharded modules do between calls.

    Raises:
        TensorError: it is one.
    """
    if tensor.numel() and not tensor.data_ptr():
        raise TensorError(
            name,
            f"a tensor of {tuple(tensor.shape)} without memory",
            "tensors with memory",
            "the call where its memory is there: for a sharded module, within its forward",
        )


# A tensor, the shape that it must have (None where no gate takes it), and what it is: the name of a
# weight, or a param or state of the cell.
_Wanted = tuple[Any, tuple[int, ...] | None, str | Param | State]


def _wanted(
    cell: CellSpec, wx: Tensor, R: Any, b: Any, states: Any, R_diag: Any, params: Any
) -> list[_Wanted]:
    """All tensors but wx, whose sizes the others must have."""
    batch, _, heads, dim, _ = wx.shape
    dense, diagonal, bias = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)
    plane, rows = (heads, dim), (batch, heads, dim)
    return [
        (R, (dense, *plane, dim) if dense else None, "R"),
        (R_diag, (diagonal, *plane) if diagonal else None, "R_diag"),
        (b, (bias, *plane) if bias else None, "b"),
        *[(params[p.name], plane, p) for p in cell.params],
        *[(tensor, rows, state) for tensor, state in zip(states, cell.states, strict=True)],
    ]


def _fit(cell: CellSpec, wx: Any, R: Any, b: Any, states: Any, R_diag: Any, params: Any) -> bool:
    """Whether all is right at a glance: words for a message take longer than a launch."""
    if not isinstance(wx, Tensor) or wx.ndim != 5 or wx.dtype not in DTYPES:
        return False
    if not wx.shape[2] * wx.shape[3] or wx.shape[4] != len(cell.input_gates):
        return False
    if not (_are_params(cell, params) and _are_states(states, len(cell.states))):
        return False
    dtype, device = wx.dtype, wx.device
    for tensor, shape, what in _wanted(cell, wx, R, b, states, R_diag, params):
        if tensor is None:
            if shape is not None and what != "b":
                return False
        elif (
            not isinstance(tensor, Tensor)
            or tensor.shape != shape
            or tensor.dtype != dtype
            or tensor.device != device
        ):
            return False
    return True


def _are_params(cell: CellSpec, params: Any) -> bool:
    return (
        isinstance(params, Mapping)
        and len(params) == len(cell.params)
        and all(p.name in params for p in cell.params)
    )


def _are_states(states: Any, count: int) -> bool:
    return isinstance(states, tuple | list) and len(states) == count


def _check_each(
    cell: CellSpec, wx: Any, R: Any, b: Any, states: Any, R_diag: Any, params: Any
) -> None:
    """The same with words for whatever is wrong first."""
    gates = cell.input_gates
    wanted = f"(B, T, N, D, {len(gates)}), the gates {', '.join(gates)} last"
    _check_tensor("wx", wx, wanted)
    check_strided("wx", wx)
    if wx.ndim != 5 or wx.shape[-1] != len(gates):
        raise _shape_error("wx", wx, wanted, "wx = x_projected.view(B, T, heads, head_dim, gates)")
    if wx.dtype not in DTYPES:
        wanted = f"a floating-point dtype: {', '.join(DTYPES.values())}"
        raise TensorError("wx", f"dtype {wx.dtype}", wanted, "wx.float()")
    if not wx.shape[2] * wx.shape[3]:
        raise _shape_error("wx", wx, "at least one head and one unit", "wx with N > 0 and D > 0")
    if not _are_params(cell, params):
        names = [p.name for p in cell.params]
        raise TensorError(
            "params",
            str(list(params)) if isinstance(params, Mapping) else kind_of(params),
            f"a dict with a tensor for each of {names}",
            _params_advice(cell, wx),
        )
    _check_count(states, [s.name for s in cell.states])
    for tensor, shape, what in _wanted(cell, wx, R, b, states, R_diag, params):
        if isinstance(what, str):
            _check_weight(cell, what, tensor, shape, wx)
        elif isinstance(what, Param):
            _check_like(f"params[{what.name!r}]", tensor, shape, f"{shape}, (N, D)", "wx", wx)
        else:
            _check_like(f"states[{what.name}]", tensor, shape, f"{shape}, (B, N, D)", "wx", wx)


def _check_weight(
    cell: CellSpec, name: str, tensor: Any, shape: tuple[int, ...] | None, wx: Tensor
) -> None:
    if shape is None:
        if tensor is not None:
            raise TensorError(
                name, f"a tensor of {tuple(tensor.shape)}", "none: no gate takes it", f"{name}=None"
            )
        return
    axes, rows = {
        "R": ("(Gr, N, D out, D in)", [f"{p.gate} from {p.source}" for p in cell.dense_pairs]),
        "R_diag": ("(Gd, N, D)", [f"{p.gate} from {p.source}" for p in cell.diagonal_pairs]),
        "b": ("(Gb, N, D)", list(cell.bias_gates)),
    }[name]
    wanted = f"{shape}, {axes}, in the order {', '.join(rows)}"
    if tensor is not None:
        _check_like(name, tensor, shape, wanted, "wx", wx)
    elif name == "R":
        # Orthogonal, as rnnc.RNN starts.
        write = f"R = torch.linalg.qr(torch.randn{shape}).Q.to(wx)"
        raise TensorError(name, "None", wanted, write)
    elif name == "R_diag":
        raise TensorError(name, "None", wanted, f"R_diag = torch.rand{shape}.to(wx)")


def _check_count(states: Any, names: Sequence[str]) -> None:
    if not _are_states(states, len(names)):
        many = isinstance(states, tuple | list)
        raise TensorError(
            "states",
            f"{len(states)} of them" if many else kind_of(states),
            f"a tuple with a tensor for each of {', '.join(names)}",
            f"states=({', '.join(names)},)",
        )


def check_states(
    states: Any,
    names: Sequence[str],
    shape: tuple[int, ...],
    axes: str,
    other_name: str,
    other: Tensor,
) -> None:
    """Check the initial states of a call: one tensor for each of `names`, of one shape.

    Args:
        states: what the caller gave.
        names: the cell's states.
        shape: what each must have.
        axes: what the shape means.
        other_name: the tensor whose dtype and device they must have, for messages.
        other: that tensor.

    Raises:
        TensorError: they do not fit.
    """
    _check_count(states, names)
    for name, state in zip(names, states, strict=True):
        _check_like(f"states[{name}]", state, shape, f"{shape}, {axes}", other_name, other)


def check_input(
    x: Any, ranks: tuple[int, int], wanted: str, size: int, weight: Tensor | None
) -> None:
    """Check the input of a module.

    Args:
        x: what the caller gave.
        ranks: how many axes it may have.
        wanted: the shapes that are taken, for messages.
        size: its last axis.
        weight: a parameter of the module, whose dtype and device it must have.

    Raises:
        TensorError: it does not fit.
    """
    wanted = f"{wanted} with input = {size}"
    _check_tensor("x", x, wanted)
    if x.is_nested or x.layout != torch.strided:
        check_strided("x", x)
    if x.ndim not in ranks or x.shape[-1] != size:
        raise _shape_error("x", x, wanted, f"x of the shape {wanted}")
    if weight is not None:
        doubles = [t.dtype == torch.float64 for t in (x, weight)]
        if doubles[0] != doubles[1] and torch.is_autocast_enabled(x.device.type):
            raise TensorError(
                "x",
                f"dtype {x.dtype}",
                f"{weight.dtype}, the dtype of the module: autocast leaves float64 alone",
                f"x.to({weight.dtype})",
            )
        check_same("x", x, "the module", weight)


def _check_like(
    name: str,
    tensor: Any,
    shape: tuple[int, ...] | None,
    wanted: str,
    other_name: str,
    other: Tensor,
) -> None:
    _check_tensor(name, tensor, wanted)
    if tuple(tensor.shape) != shape:
        raise _shape_error(name, tensor, wanted, f"{name} of the shape {shape}")
    check_same(name, tensor, other_name, other)


def check_same(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Check that a tensor has the dtype and the device of another.

    Raises:
        TensorError: it has not; under autocast dtypes may differ.
    """
    if tensor.dtype != other.dtype and not torch.is_autocast_enabled(other.device.type):
        raise TensorError(
            name,
            f"dtype {tensor.dtype}",
            f"{other.dtype}, the dtype of {other_name}",
            f"{name}.to({other.dtype}), or torch.autocast for mixed precision",
        )
    if tensor.device != other.device:
        raise TensorError(
            name,
            f"device {tensor.device}",
            f"{other.device}, the device of {other_name}",
            f"{name}.to({str(other.device)!r})",
        )


def check_kernel_inputs(
    named: Mapping[str, Tensor | None], computed: torch.dtype, known: Sequence[torch.dtype]
) -> None:
    """Check what the tensors of a call are made of, before kernels take them.

    Args:
        named: the tensors; the first is wx.
        computed: the dtype that the kernels shall compute in.
        known: the dtypes that they can.

    Raises:
        TensorError: one is not strided, of a dtype without kernels, or, without autocast, of
            another dtype than wx.
    """
    wx = next(iter(named.values()))
    assert wx is not None
    for name, tensor in named.items():
        if tensor is not None:
            check_strided(name, tensor)
            check_same(name, tensor, "wx", wx)
    if computed not in known:
        raise TensorError(
            "wx",
            f"dtype {computed}",
            f"one of {', '.join(map(str, known))} on {wx.device.type}",
            f"every tensor as .to({known[0]})",
        )


def check_strided(name: str, tensor: Tensor) -> None:
    """Refuse a sparse, nested or otherwise packed tensor, whose elements have no strides.

    Raises:
        TensorError: it is one.
    """
    if tensor.is_nested:
        raise TensorError(
            name,
            "a nested tensor",
            "a tensor of one size in each axis; cells have no lengths (docs/limits.md)",
            f"torch.nested.to_padded_tensor({name}, 0.0)",
        )
    if tensor.layout != torch.strided:
        raise TensorError(name, f"layout {tensor.layout}", "torch.strided", f"{name}.to_dense()")


def _check_tensor(name: str, tensor: Any, wanted: str) -> None:
    if isinstance(tensor, Tensor):
        return
    batch_first = ", batch_first=True" if wanted.startswith("(B, T") else ""
    found, wanted = kind_of(tensor), f"a tensor of {wanted}"
    if isinstance(tensor, PackedSequence):
        found += ": sequences of different lengths"
        wanted += "; cells have no lengths (docs/limits.md)"
        write = f"{name}, lengths = torch.nn.utils.rnn.pad_packed_sequence({name}{batch_first})"
    elif tensor is None:
        found, write = "None", f"{name} = torch.randn(...) of that shape, or your data"
    else:
        write = f"torch.as_tensor({name})"
    raise TensorError(name, found, wanted, write)


def _params_advice(cell: CellSpec, wx: Tensor) -> str:
    plane = tuple(wx.shape[2:4])
    each = (f"{p.name!r}: torch.full({plane}, {p.init}).to(wx)" for p in cell.params)
    return f"params={{{', '.join(each)}}}"


def _shape_error(name: str, tensor: Tensor, wanted: str, write: str) -> TensorError:
    return TensorError(name, f"shape {tuple(tensor.shape)}", wanted, write)


def check_size(name: str, value: Any, minimum: int = 1) -> int:
    """A size of a module: a whole number, at least `minimum`.

    Raises:
        TensorError: it is no whole number (NaN, a float, a string), or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise TensorError(
            name, repr(value), f"a whole number, at least {minimum}", f"{name}={max(minimum, 1)}"
        )
    return value


def check_heads(heads: Any, hidden_size: int) -> int:
    """The heads of a module, which divide its hidden size.

    Raises:
        TensorError: they are no such number.
    """
    check_size("heads", heads)
    if hidden_size % heads:
        divisors = [n for n in range(1, hidden_size + 1) if hidden_size % n == 0]
        nearest = min(divisors, key=lambda n: abs(n - heads))
        raise TensorError(
            "heads",
            f"{heads} with hidden_size={hidden_size}",
            "a divisor of hidden_size",
            f"heads={nearest}, or hidden_size={max(round(hidden_size / heads), 1) * heads}",
        )
    return cast(int, heads)


# What a module calls its weights: f"{name}_l{layer}".
WEIGHTS = ("weight_ih", "weight_hh", "weight_hd", "bias")


def check_is_cell(cell: Any) -> CellSpec:
    """A cell.

    Raises:
        TensorError: it is none.
    """
    if not isinstance(cell, CellSpec):
        write = "a function under @rnnc.cell"
        if isinstance(cell, str):
            write = f"rnnc.cells.get({cell!r}), or a function under @rnnc.cell"
        elif isinstance(cell, list | tuple):
            write = "an rnnc.RNN for each cell in an nn.ModuleList, one after the other"
        wanted = "a cell, the same for all layers"
        raise TensorError("cell", kind_of(cell), wanted, write)
    return cell


def check_cell(cell: Any) -> CellSpec:
    """The cell of a module.

    Raises:
        TensorError: it is no cell, or a param has the name of a weight of the module.
    """
    for param in check_is_cell(cell).params:
        if param.name in WEIGHTS:
            raise TensorError(
                f"the param {param.name} of {cell.name}",
                f"the name of a weight of rnnc.RNN, {param.name}_l0",
                f"a name other than {', '.join(WEIGHTS)}",
                f"own_{param.name}: Param",
            )
    return cast(CellSpec, cell)


def check_module_dtype(dtype: Any) -> None:
    """Check the dtype of a module's weights.

    Raises:
        TensorError: it is not one of floating-point numbers.
    """
    used = torch.get_default_dtype() if dtype is None else dtype
    if not isinstance(used, torch.dtype) or not used.is_floating_point:
        raise TensorError("dtype", repr(dtype), "a floating-point dtype", "dtype=torch.float32")


def check_weight_of_module(
    name: str, weight: Any, shape: tuple[int, ...], device: torch.device | None
) -> Tensor:
    """Check what stands for a weight of a module.

    Args:
        name: of the weight.
        weight: what is there.
        shape: what it must have.
        device: where the input is; None where no input is given.

    Raises:
        TensorError: there is nothing, no tensor, or one of another shape or on another device.
    """
    wanted = f"a tensor of {shape}, as the module was built with"
    if not isinstance(weight, Tensor):
        found = "nothing" if weight is None else kind_of(weight)
        write = f"module.{name} = torch.nn.Parameter(torch.zeros{shape})"
        if name.startswith("bias_l"):
            write += ", or rnnc.RNN(..., bias=False)"
        raise TensorError(name, found, wanted, write)
    if tuple(weight.shape) != shape:
        raise _shape_error(name, weight, wanted, f"{name} of the shape {shape}")
    if device is not None and weight.device != device:
        raise TensorError(
            name,
            f"device {weight.device}",
            f"{device}, the device of x: a module's weights lie on one device",
            f"module.to({str(device)!r})",
        )
    return weight


def check_choice(name: str, value: Any, choices: tuple[Choice, ...]) -> Choice:
    """One of some words.

    Raises:
        TensorError: it is none of them.
    """
    if value not in choices:
        raise TensorError(
            name, repr(value), f"one of {', '.join(map(str, choices))}", f"{name}={choices[0]!r}"
        )
    return cast(Choice, value)
