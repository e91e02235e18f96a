"""Plans and kernels of calls that have not been made, for `rnnc.warmup`."""

from __future__ import annotations

import torch
from torch import Tensor

from ...codegen.shape import DIRECTIONS
from ..call.call import Call
from ..call.stack import Stack
from ..store.tuned import Asked
from .choose import asked_for, choose_plan
from .launch import on_device
from .load import load_kernel
from .wavefront.schedule import Question, StackSizes, schedule_of


def asked_ahead(call: Call, stack: Stack, batch: int, like: Tensor) -> Asked:
    """Return what the plan of a call is asked for; the call is of one direction of time."""
    sizes = stack.heads, stack.dim, batch, like.dtype, like.device.index
    return asked_for(call.cell, *sizes, call.choice, call.tf32)


def load_ahead(call: Call, stack: Stack, steps: int, batch: int, like: Tensor) -> None:
    """Compile and load the kernels of a call of one direction of time."""
    dtype, index = like.dtype, like.device.index
    asked = call.cell, stack.heads, stack.dim, batch, dtype, index, call.choice, call.tf32
    gates = len(call.cell.input_gates)
    sizes = StackSizes(stack.layers, steps, batch, stack.heads, stack.dim, gates)
    with on_device(torch.device("cuda", index)):
        for direction in DIRECTIONS if call.for_backward else DIRECTIONS[:1]:
            plan = getattr(choose_plan(*asked, direction, call.masked), direction)
            groups: tuple[int, ...] = (1,)
            if stack.at_once:
                question = Question(call, direction, sizes, dtype, index, stack.order)
                found = schedule_of(question)
                groups = found.groups
                if found.plan is not None and max(groups) > 1:
                    load_kernel(call.cell, found.plan, f"rnnc_{direction}", index)
            if 1 in groups:
                for name in plan.kernel_names:
                    load_kernel(call.cell, plan, name, index)
