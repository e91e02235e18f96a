"""The layouts of a call's tensors: with time first in values, and as the call takes them."""

from __future__ import annotations

import torch
from torch import Tensor

from .case import Call, ModuleCase


def given(case: ModuleCase, call: Call, name: str, tensor: Tensor) -> Tensor:
    """Return a tensor in the layout in which a call takes or returns it.

    Args:
        case: the case.
        call: the call.
        name: of the tensor.
        tensor: as `tensors_of` gives it.
    """
    time, rows = _axes(call, name)
    if rows is not None and call.single:
        return tensor.squeeze(rows)
    return _swapped(case, call, tensor, time, rows)


def returned(case: ModuleCase, call: Call, name: str, tensor: Tensor) -> Tensor:
    """Undo what `given` does.

    Args:
        case: the case.
        call: the call.
        name: of the tensor.
        tensor: of the call, or its gradient.
    """
    time, rows = _axes(call, name)
    if rows is not None and call.single:
        return tensor.unsqueeze(rows)
    return _swapped(case, call, tensor, time, rows)


def _swapped(
    case: ModuleCase, call: Call, tensor: Tensor, time: int | None, rows: int | None
) -> Tensor:
    over_time = call.kind not in ("steps", "stepper")
    if case.batch_first and over_time and time is not None and rows is not None:
        return tensor.transpose(time, rows)
    return tensor


def _axes(call: Call, name: str) -> tuple[int | None, int | None]:
    """Return the axes of time and of rows of a tensor by its name; a weight has neither."""
    if name in ("x", "y", "reset") or name.startswith("inputs.") or name.endswith(" over time"):
        return 0, 1
    if name.startswith("drawn."):
        return 1, 2
    if name.startswith("reset_to."):
        return {"stored": (1, 2), "rows": (None, 1)}.get(call.reset_to, (None, None))
    if name.startswith("states.") or name.endswith(" last"):
        return None, 1
    return None, None


def padding_of(call: Call) -> Tensor | None:
    """Mark the steps of each row that do not run, (T, B); None without lengths."""
    if not call.lengths:
        return None
    return torch.arange(call.steps)[:, None] >= torch.tensor(call.lengths)[None]


def padded(call: Call, name: str, values: Tensor) -> Tensor:
    """Put NaN into the padding of a tensor, which the kernels must not read.

    Args:
        call: the call.
        name: of the tensor, or of the output whose gradient it is.
        values: as `tensors_of` gives it.
    """
    where = padding_of(call)
    time, _ = _axes(call, name)
    if where is None or time != 0 or values.shape[:2] != where.shape:
        return values
    where = where.to(values.device).view(*where.shape, *(1,) * (values.ndim - 2))
    return values.masked_fill(where, float("nan"))


def reset_of(call: Call) -> Tensor | None:
    """Return the resets of a call, (T, B); None without any."""
    if not call.resets:
        return None
    found = torch.zeros(call.steps, call.batch, dtype=torch.bool)
    for row, steps in enumerate(call.resets):
        found[list(steps), row] = True
    return found
