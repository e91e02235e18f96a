"""Calls of one size, prepared with the plan that is chosen for them, or the next that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeVar

import torch

from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.limits import MIB
from ...codegen.request import DENSE_STEPS
from ...codegen.shape import MOST_COUNT, Direction, Masked
from ...errors import DiagnosticError, TensorError
from ..call.layer_call import LayerCall
from ..process.caller import warn
from ..store.tuned import on_remember
from .choose import PlanQuestion, all_plans, choose_plan, question_of
from .launch import CallSizes
from .prepared import LARGE_BUFFERS, NO_ROOM, Prepared, prepare

Result = TypeVar("Result")


def check_counts(steps: int, batch: int, heads: int) -> None:
    """Refuse more steps, rows or heads than kernels count, with a TensorError."""
    if max(steps, batch, heads) > MOST_COUNT:
        raise TensorError(
            "wx",
            f"{steps} steps, {batch} rows, {heads} heads",
            f"at most {MOST_COUNT} of each on a GPU",
            "scan on parts of them",
        )


def with_room(
    own: KernelPlan,
    run: Callable[[KernelPlan], Result],
    steps: int,
    failed: Exception | None = None,
    *,
    question: PlanQuestion,
) -> Result:
    """Run a direction of a call by its plan, or by the cheapest other plan that has room.

    A driver may refuse what the device has room for: under MPS and in a green context a call has
    only a part of the device. A warning says which plan runs instead. `failed` is why the plan has
    just failed, None if it was not tried; `question` is what `choose_plan` was asked. Where no plan
    has room or memory, the error of the first says so.
    """
    why = str(failed) if failed else _lack_of_memory(own, steps, question)
    if not why:
        try:
            return run(own)
        except NO_ROOM as error:
            why = str(error)
    masked: Masked = "stored" if own.resets != "constant" else own.masked
    for plan in dict.fromkeys(p.kernel(own.direction) for p in all_plans(question, masked)):
        if plan == own or _lack_of_memory(plan, steps, question):
            continue
        try:
            result = run(plan)
        except NO_ROOM:
            continue
        warn(
            f"rnnc runs the {plan.kind} plan of {question.cell.name} where it would run the"
            f" {own.kind} plan.\n{why}"
        )
        return result
    return run(own)  # whose error says what is missing


def _lack_of_memory(plan: KernelPlan, steps: int, question: PlanQuestion) -> str:
    """Return the lack of memory for a plan's buffers, in words; an empty text if there is room."""
    device = question.device
    per_step, fixed = plan.buffer_bytes(question.batch, question.heads)
    needed = per_step * (steps or 1) + fixed
    if needed < LARGE_BUFFERS:
        return ""
    free = free_bytes(device)
    if needed <= free:
        return ""
    lack = DiagnosticError(
        f"exchange buffer of rnnc_{plan.direction} on cuda:{device}",
        f"{free // MIB} MiB free",
        f"{needed // MIB} MiB, for {steps} steps",
        'variant="alternating", or scan on parts of the sequence',
    )
    return str(lack)


def free_bytes(device: int) -> int:
    """Return the bytes that torch can allocate on a device, from the driver and its own cache."""
    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    share = torch.cuda.get_per_process_memory_fraction(device)
    new = min(free, max(int(share * total) - reserved, 0))
    if torch.cuda.is_current_stream_capturing():
        return new  # a graph's memory does not come of the cache
    return new + reserved - torch.cuda.memory_allocated(device)


@lru_cache(maxsize=2048)
def ready_for(
    layer_call: LayerCall,
    direction: Direction,
    batch: int,
    heads: int,
    dim: int,
    dtype: torch.dtype,
    device: int,
    masked: Masked,
    like: int = DENSE_STEPS,
) -> Prepared:
    """Choose the plan of a direction that is best for calls of `like` steps, and prepare it."""
    check_counts(0, batch, heads)
    question = question_of(layer_call, batch, heads, dim, dtype, device, like)
    plan = choose_plan(question, direction, masked).kernel(direction)
    ready = prepare(layer_call.cell, plan, CallSizes(batch, heads, dim), device)
    if layer_call.choice.variant != "auto":
        return ready
    return replace(ready, step_down=partial(with_room, question=question))


# What was chosen before may be another plan.
on_remember(ready_for.cache_clear)
