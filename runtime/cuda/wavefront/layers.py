"""Layers of a call on a GPU, where some of them may run at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from torch import Tensor

from ....codegen.shape import Direction
from ...call.layers import LayersCall, LayersRead
from ...call.tensors import Forward, Gradients
from ..driver.matmul import aligned
from ..launch import on_device
from ..products.inputs import project_at
from ..ready import ready_for
from ..step_down import check_counts
from .backward import Backward
from .forward import run_forward
from .schedule import LayersSizes, Question, Schedule, schedule_of


def forward_layers(asked: LayersCall, x: Tensor) -> tuple[list[Forward], list[Tensor]] | None:
    """Run the forward of all layers by a schedule; None where the caller runs each.

    x is (T, B, input).
    """
    schedule = _schedule(asked, "forward", x)
    if schedule.chunk is None:
        return None
    batch = x.shape[1]
    sizes = batch, asked.heads, asked.dim
    alone = ready_for(asked.layer_call, "forward", *sizes, x.dtype, x.device.index, False)
    wx = project_at(x, asked.input_weight(0), asked.layer_call.tf32)
    return run_forward(asked, schedule, alone, wx)


def backward_layers(
    asked: LayersCall, reads: LayersRead, finish: Callable[[int, Gradients], None]
) -> bool:
    """Run the backward of all layers by a schedule; False where the caller runs each.

    `finish` takes the gradients of a layer, by its number.
    """
    x = reads.x
    schedule = _schedule(asked, "backward", x)
    if schedule.chunk is None:
        return False
    batch = x.shape[1]
    sizes = batch, asked.heads, asked.dim
    alone = ready_for(asked.layer_call, "backward", *sizes, x.dtype, x.device.index, False)
    Backward(asked, schedule, alone, reads, finish).run_all()
    return True


def _schedule(asked: LayersCall, direction: Direction, x: Tensor) -> Schedule:
    """Return the schedule of a direction of a call."""
    W = asked.weights[0].W
    gates = 0 if W is None else W.shape[0]
    steps, batch, _ = x.shape
    check_counts(steps, batch, asked.heads)
    sizes = LayersSizes(len(asked.weights), steps, batch, asked.heads, asked.dim, gates)
    above = [each.W.data_ptr() for each in asked.weights[1:] if each.W is not None]
    alignment = aligned(reduce(or_, above, 0))
    kind = x.dtype, x.device.index, asked.order, alignment
    with on_device(x.device):
        return schedule_of(Question(asked.layer_call, direction, sizes, *kind))
