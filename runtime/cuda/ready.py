"""Directions of calls, prepared with the plans that are chosen for them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

import torch

from ...codegen.shape import Direction, Masked
from ..call.layer_call import LayerCall
from ..store.tuned import on_remember
from .choose import choose_plan, question_of
from .launch import CallSizes
from .prepared import Prepared, prepare
from .step_down import check_counts, with_room


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
) -> Prepared:
    """Choose a plan for a direction of a call of any number of steps, and prepare it."""
    check_counts(0, batch, heads)
    question = question_of(layer_call, batch, heads, dim, dtype, device)
    plan = getattr(choose_plan(question, direction, masked), direction)
    ready = prepare(layer_call.cell, plan, CallSizes(batch, heads, dim), device)
    if layer_call.choice.variant != "auto":
        return ready
    return replace(ready, step_down=partial(with_room, question=question))


# What was chosen before may be another plan.
on_remember(ready_for.cache_clear)
