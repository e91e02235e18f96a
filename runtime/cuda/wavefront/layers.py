"""Layers of a call on a GPU, where some of them may run at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from torch import Tensor

from ....codegen.shape import Direction
from ...call.requests import LayersCall, LayersRead
from ...call.tensors import Forward, Gradients
from ..driver.matmul import aligned
from ..driver.streams import on_device
from ..prepared import Prepared
from ..products.inputs import project_at
from ..ready import check_counts, ready_for
from .passes import BackwardPass, ForwardPass
from .schedule import LayersSizes, Question, Schedule, schedule_of


def forward_layers(asked: LayersCall, x: Tensor) -> tuple[list[Forward], list[Tensor]] | None:
    """Run all layers on x, (T, B, input), by a schedule; None where the caller runs each."""
    schedule = _schedule(asked, "forward", x)
    if not schedule.chunk:
        return None
    wx = project_at(x, asked.input_weight(0), asked.layer_call.tf32)
    run = ForwardPass(asked, schedule, _alone(asked, "forward", x), wx)
    with on_device(x.device):
        run.run_all()
    return run.results, run.masks


def backward_layers(
    asked: LayersCall, reads: LayersRead, finish: Callable[[int, Gradients], None]
) -> bool:
    """Run the backward of all layers by a schedule; False where the caller runs each."""
    x = reads.x
    schedule = _schedule(asked, "backward", x)
    if not schedule.chunk:
        return False
    run = BackwardPass(asked, schedule, _alone(asked, "backward", x), reads, finish)
    with on_device(x.device):
        run.run_all()
    return True


def _alone(asked: LayersCall, direction: Direction, x: Tensor) -> Prepared:
    """Return a layer that runs by itself, prepared."""
    sizes = x.shape[1], asked.call.heads, asked.call.dim
    return ready_for(asked.layer_call, direction, *sizes, x.dtype, x.device.index, False)


def _schedule(asked: LayersCall, direction: Direction, x: Tensor) -> Schedule:
    """Return the schedule of a direction of a call."""
    call, W = asked.call, asked.weights[0].W
    gates = 0 if W is None else W.shape[0]
    steps, batch, _ = x.shape
    check_counts(steps, batch, call.heads)
    sizes = LayersSizes(call.layers, steps, batch, call.heads, call.dim, gates)
    above = [each.W.data_ptr() for each in asked.weights[1:] if each.W is not None]
    alignment = aligned(reduce(or_, above, 0))
    kind = x.dtype, x.device.index, call.order, alignment
    with on_device(x.device):
        return schedule_of(Question(asked.layer_call, direction, sizes, *kind))
