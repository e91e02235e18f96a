"""Part of a GPU's target that runs both directions of a layer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache

import torch
from torch import Tensor

from ....codegen.cuda.directions import joined
from ....codegen.shape import PlanError
from ...call.call import Call
from ...store.planned import planned
from ...targets.lanes import ONE_LANE, Lanes
from ..choose import asked_for
from .lanes import TwoLanes

# Fewer steps take no longer than the host needs for a second stream.
_STEPS_OF_A_LANE = 24


class CudaDirections:
    """Both directions of a layer as one call of twice the heads, or as two calls in two streams."""

    def joins(self, call: Call, like: Tensor, batch: int, heads: int, dim: int) -> bool:
        """Return True if one call of both directions is better than a call of each."""
        return _joins(call, batch, heads, dim, like.dtype, like.device.index)

    def lanes(self, like: Tensor, steps: int) -> AbstractContextManager[Lanes]:
        """Return the lanes of both directions: one, where a second stream gains too little."""
        return TwoLanes(like.device) if steps >= _STEPS_OF_A_LANE else ONE_LANE


@lru_cache(maxsize=2048)
def _joins(call: Call, batch: int, heads: int, dim: int, dtype: torch.dtype, device: int) -> bool:
    try:
        one, both = (
            planned(
                asked_for(call.cell, count, dim, batch, dtype, device, call.choice, call.tf32),
                call.choice.variant,
            )
            for count in (heads, 2 * heads)
        )
    except PlanError:
        return False
    return joined(one, both, call.choice.fill)
