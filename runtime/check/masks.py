"""Argument validation for lengths, resets and the values after a reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...errors import TensorError
from ..call.plain import values_visible
from .scan import check_count
from .tensor import check_device, check_kind, check_same, check_tensor, shape_error

_INTEGERS = frozenset((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8))


def check_masks(cell: CellSpec, lengths: Any, reset: Any, reset_to: Any, wx: Tensor) -> None:
    """Check the arguments `lengths`, `reset` and `reset_to` of `rnnc.scan`, with a checked wx."""
    batch, steps, heads, dim, _ = wx.shape
    if lengths is not None:
        check_lengths(lengths, batch, steps)
    if reset is not None:
        check_reset(reset, (batch, steps), "(B, T)", "wx", wx)
    if reset_to is None:
        return
    if reset is None:
        raise no_reset_error()
    names = [state.name for state in cell.states]
    check_count(reset_to, names, "reset_to")
    plane = (heads, dim)
    shapes = (plane, (batch, *plane), (batch, steps, *plane))
    for name, value in zip(names, reset_to, strict=True):
        check_reset_value(f"reset_to[{name}]", value, shapes, "(N, D), (B, N, D), (B, T, N, D)", wx)


def check_lengths(
    lengths: Any, batch: int, steps: int, shape: tuple[int, ...] | None = None
) -> None:
    """Check `lengths`: whole numbers from 0 to T of `shape`, by default (B,); values if visible."""
    shape = (batch,) if shape is None else shape
    fits = isinstance(lengths, Tensor) and lengths.shape == shape and lengths.dtype in _INTEGERS
    if fits and not (batch and values_visible(lengths)):
        return
    wanted = f"{shape} whole numbers from 0 to {steps}, one for each row"
    advice = "lengths=torch.tensor(lengths)", "lengths.long()"
    check_kind("lengths", lengths, shape, _INTEGERS, wanted, advice)
    for value in map(int, lengths.aminmax()):
        if not 0 <= value <= steps:
            write = f"lengths.clamp(0, {steps})"
            raise TensorError("lengths", f"a length of {value}", wanted, write)


def check_reset(
    reset: Any, shape: tuple[int, ...], axes: str, other_name: str, other: Tensor
) -> None:
    """Check the argument `reset`: a bool tensor of a shape, on the device of `other`."""
    wanted = f"{shape}, {axes}, of torch.bool"
    write = f"reset=torch.as_tensor(reset, device={str(other.device)!r}).bool()"
    check_kind("reset", reset, shape, (torch.bool,), wanted, (write, "reset.bool()"))
    check_device("reset", reset, other_name, other)


def check_reset_value(
    name: str, value: Any, shapes: Sequence[tuple[int, ...]], axes: str, like: Tensor
) -> None:
    """Check the value of one state after a reset, which has one of `shapes`."""
    # torch.compile can neither print a size that it does not know, nor find one in a list.
    if not isinstance(value, Tensor) or not any(tuple(value.shape) == shape for shape in shapes):
        wanted = f"one of {', '.join(map(str, shapes))}: {axes}"
        check_tensor(name, value, wanted)
        raise shape_error(name, value, wanted, f"{name} of the shape {shapes[0]}")
    check_same(name, value, "the input", like)


def no_reset_error() -> TensorError:
    """Return the error of reset values without resets."""
    return TensorError(
        "reset_to",
        "values to reset to, and no reset",
        "reset, which says where; states are what comes before the first step",
        "reset=, or states= for the first step",
    )
