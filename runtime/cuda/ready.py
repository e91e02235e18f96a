"""Calls of one size, prepared with the plan that is chosen for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache, partial

import torch

from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.request import DENSE_STEPS
from ...codegen.shape import MOST_COUNT, Direction, Masked
from ...errors import TensorError
from ..call.layer_call import LayerCall
from ..store.tuned import on_remember
from .choose import PlanQuestion, all_plans, choose_plan, question_of
from .launch import CallSizes
from .prepared import Prepared, prepare


def check_counts(steps: int, batch: int, heads: int) -> None:
    """Refuse more steps, rows or heads than kernels count, with a TensorError."""
    if max(steps, batch, heads) > MOST_COUNT:
        raise TensorError(
            "wx",
            f"{steps} steps, {batch} rows, {heads} heads",
            f"at most {MOST_COUNT} of each on a GPU",
            "scan on parts of them",
        )


def other_plans(
    question: PlanQuestion, direction: Direction, masked: Masked
) -> Iterable[KernelPlan]:
    """Return the plans of a direction that may answer a question, the cheapest first."""
    return dict.fromkeys(plan.kernel(direction) for plan in all_plans(question, masked))


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
    return replace(ready, others=partial(other_plans, question, direction, masked))


# What was chosen before may be another plan.
on_remember(ready_for.cache_clear)
