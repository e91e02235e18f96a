"""Argument validation for lengths, resets and the values after a reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...errors import TensorError
from ..call.plain import values_visible
from .scan import check_count
from .tensor import check_device, check_kind, check_same, check_tensor, shape_error

Shape = tuple[int, ...]
_INTEGERS = frozenset((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8))


def check_masks(cell: CellSpec, lengths: Any, reset: Any, reset_to: Any, wx: Tensor) -> None:
    """Check the arguments `lengths`, `reset` and `reset_to` of `rnnc.scan`, with a checked wx."""
    batch, steps, heads, dim, _ = wx.shape
    if lengths is not None:
        check_lengths(lengths, batch, steps)
    if reset is not None:
        check_reset(reset, (batch, steps), "(B, T)", "wx", wx)
    plane, names = (heads, dim), [state.name for state in cell.states]
    shapes = dict.fromkeys(names, (plane, (batch, *plane), (batch, steps, *plane)))
    check_reset_values(reset_to, reset, shapes, "(N, D), (B, N, D), (B, T, N, D)", wx)


def check_lengths(lengths: Any, batch: int, steps: int, shape: Shape | None = None) -> None:
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


def check_reset(reset: Any, shape: Shape, axes: str, other_name: str, other: Tensor) -> None:
    """Check the argument `reset`: a bool tensor of a shape, on the device of `other`."""
    wanted = f"{shape}, {axes}, of torch.bool"
    write = f"reset=torch.as_tensor(reset, device={str(other.device)!r}).bool()"
    check_kind("reset", reset, shape, (torch.bool,), wanted, (write, "reset.bool()"))
    check_device("reset", reset, other_name, other)


def check_reset_values(
    values: Any, reset: Any, shapes: Mapping[str, Sequence[Shape]], axes: str, like: Tensor
) -> None:
    """Check the argument `reset_to`: a value for each state, which has one of the shapes given."""
    if values is None:
        return
    if reset is None:
        raise TensorError(
            "reset_to",
            "values to reset to, and no reset",
            "reset, which says where; states are what comes before the first step",
            "reset=, or states= for the first step",
        )
    check_count(values, list(shapes), "reset_to")
    for (state, own), value in zip(shapes.items(), values, strict=True):
        name = f"reset_to[{state}]"
        # torch.compile can neither print a size that it does not know, nor find one in a list.
        if not isinstance(value, Tensor) or not any(tuple(value.shape) == shape for shape in own):
            wanted = f"one of {', '.join(map(str, own))}: {axes}"
            check_tensor(name, value, wanted)
            raise shape_error(name, value, wanted, f"{name} of the shape {own[0]}")
        check_same(name, value, "the input", like)
