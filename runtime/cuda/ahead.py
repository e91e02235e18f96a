"""Plans and kernels of calls that have not been made, for `rnnc.warmup`."""

from __future__ import annotations

import torch
from torch import Tensor

from ...codegen.request import steps_like
from ...codegen.shape import DIRECTIONS
from ..call.call import Call
from ..call.layer_call import LayerCall
from ..store.tuned import Asked
from .choose import PlanQuestion, choose_plan, question_of
from .driver.streams import on_device
from .load import load_kernel
from .products.rearrange import kernel_writing
from .wavefront.schedule import Question, schedule_of, sizes_of_layers


def asked_ahead(layer_call: LayerCall, call: Call, steps: int, batch: int, like: Tensor) -> Asked:
    """Return what the plan of a call is asked for; the call is of one direction of time."""
    return _question(layer_call, call, steps, batch, like).asked


def _question(
    layer_call: LayerCall, call: Call, steps: int, batch: int, like: Tensor
) -> PlanQuestion:
    kind = like.dtype, like.device.index, steps_like(layer_call.cell, steps)
    return question_of(layer_call, batch, call.heads, call.dim, *kind)


def load_ahead(layer_call: LayerCall, call: Call, steps: int, batch: int, like: Tensor) -> None:
    """Compile and load the kernels of a call of one direction of time."""
    cell, dtype, index = layer_call.cell, like.dtype, like.device.index
    asked = _question(layer_call, call, steps, batch, like)
    sizes = sizes_of_layers(layer_call, call, steps, batch)
    with on_device(torch.device("cuda", index)):
        kernel_writing(dtype, index)
        for direction in DIRECTIONS if layer_call.for_backward else DIRECTIONS[:1]:
            groups: tuple[int, ...] = (1,)
            if call.at_once:
                question = Question(layer_call, direction, sizes, dtype, index, call.order)
                found = schedule_of(question)
                groups = found.groups
                if found.plan is not None and max(groups) > 1:
                    load_kernel(cell, found.plan, f"rnnc_{direction}", index)
            if 1 in groups:
                plan = choose_plan(asked, direction, layer_call.masked).kernel(direction)
                for name in plan.kernel_names:
                    load_kernel(cell, plan, name, index)
