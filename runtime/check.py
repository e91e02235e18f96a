"""Bad tensors meet this door: every message names the argument, what came and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from .errors import TensorError

Choice = TypeVar("Choice", bound=str)


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


def _fit(cell: CellSpec, wx: Any, R: Any, b: Any, states: Any, R_diag: Any, params: Any) -> bool:
    """Whether all is right at a glance: words for a message take longer than a launch."""
    if not isinstance(wx, Tensor) or wx.ndim != 5 or not wx.is_floating_point():
        return False
    batch, _, heads, dim, gates = wx.shape
    dense, diagonal = len(cell.dense_pairs), len(cell.diagonal_pairs)
    if not heads * dim or gates != len(cell.input_gates):
        return False
    if not isinstance(params, Mapping) or len(params) != len(cell.params):
        return False
    if not isinstance(states, tuple | list) or len(states) != len(cell.states):
        return False
    wanted: list[tuple[Any, Any]] = [(params.get(p.name), (heads, dim)) for p in cell.params]
    wanted += [(state, (batch, heads, dim)) for state in states]
    if dense or R is not None:
        wanted.append((R, (dense, heads, dim, dim) if dense else None))
    if diagonal or R_diag is not None:
        wanted.append((R_diag, (diagonal, heads, dim) if diagonal else None))
    if b is not None:
        wanted.append((b, (len(cell.bias_gates), heads, dim) if cell.bias_gates else None))
    dtype, device = wx.dtype, wx.device
    return all(
        isinstance(t, Tensor) and t.shape == shape and t.dtype == dtype and t.device == device
        for t, shape in wanted
    )


def _check_each(
    cell: CellSpec, wx: Any, R: Any, b: Any, states: Any, R_diag: Any, params: Any
) -> None:
    gates = cell.input_gates
    wanted = f"(B, T, N, D, {len(gates)}), the gates {', '.join(gates)} last"
    _check_tensor("wx", wx, wanted)
    if wx.ndim != 5 or wx.shape[-1] != len(gates):
        raise _shape_error("wx", wx, wanted, "wx = x_projected.view(B, T, heads, head_dim, gates)")
    if not wx.is_floating_point():
        raise TensorError("wx", f"dtype {wx.dtype}", "a floating-point dtype", "wx.float()")
    batch, _, heads, dim, _ = wx.shape
    if heads == 0 or dim == 0:
        raise _shape_error("wx", wx, "at least one head and one unit", "wx with N > 0 and D > 0")
    pairs = [f"{p.gate} from {p.source}" for p in cell.dense_pairs]
    diagonal = [f"{p.gate} from {p.source}" for p in cell.diagonal_pairs]
    _check_weight("R", R, pairs, (heads, dim, dim), "(Gr, N, D out, D in)", wx, needed=True)
    _check_weight("R_diag", R_diag, diagonal, (heads, dim), "(Gd, N, D)", wx, needed=True)
    _check_weight("b", b, list(cell.bias_gates), (heads, dim), "(Gb, N, D)", wx, needed=False)
    _check_params(cell, params, (heads, dim), wx)
    names = [s.name for s in cell.states]
    check_states(states, names, (batch, heads, dim), "(B, N, D)", "wx", wx)


def _check_weight(
    name: str,
    tensor: Any,
    rows: Sequence[str],
    rest: tuple[int, ...],
    axes: str,
    wx: Tensor,
    needed: bool,
) -> None:
    if not rows:
        if tensor is not None:
            raise TensorError(
                name, f"a tensor of {tuple(tensor.shape)}", "none: no gate takes it", f"{name}=None"
            )
        return
    shape = (len(rows), *rest)
    wanted = f"{shape}, {axes}, in the order {', '.join(rows)}"
    if tensor is None:
        if needed:
            raise TensorError(name, "None", wanted, f"{name} = torch.empty{shape}")
        return
    _check_like(name, tensor, shape, wanted, "wx", wx)


def _check_params(cell: CellSpec, params: Any, shape: tuple[int, ...], wx: Tensor) -> None:
    names = [p.name for p in cell.params]
    given = list(params) if isinstance(params, Mapping) else params
    if not isinstance(params, Mapping) or sorted(given) != sorted(names):
        shown = given if isinstance(params, Mapping) else type(params).__name__
        raise TensorError(
            "params",
            f"{shown}",
            f"a dict with a tensor for each of {names}",
            f"params={{{', '.join(f'{n!r}: …' for n in names)}}}",
        )
    for name in names:
        _check_like(f"params[{name!r}]", params[name], shape, f"{shape}, (N, D)", "wx", wx)


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
    if not isinstance(states, tuple | list) or len(states) != len(names):
        many = isinstance(states, tuple | list)
        raise TensorError(
            "states",
            f"{len(states)} of them" if many else f"a {type(states).__name__}",
            f"a tuple with a tensor for each of {', '.join(names)}",
            f"states=({', '.join(names)},)",
        )
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
    if x.ndim not in ranks or x.shape[-1] != size:
        raise _shape_error("x", x, wanted, f"x of the shape {wanted}")
    if weight is not None:
        check_same("x", x, "the module", weight)


def _check_like(
    name: str, tensor: Any, shape: tuple[int, ...], wanted: str, other_name: str, other: Tensor
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


def _check_tensor(name: str, tensor: Any, wanted: str) -> None:
    if not isinstance(tensor, Tensor):
        raise TensorError(
            name, f"a {type(tensor).__name__}", f"a tensor of {wanted}", f"torch.as_tensor({name})"
        )


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
