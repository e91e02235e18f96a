"""What a GPU adds to a target: how it runs both directions of a layer."""

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
        """Whether one call of both directions is better than a call of each.

        Args:
            call: of the direction that runs forwards.
            like: gives dtype and device.
            batch: rows.
            heads: of one direction.
            dim: units per head.
        """
        return _joins(call, batch, heads, dim, like.dtype, like.device.index)

    def lanes(self, like: Tensor, steps: int) -> AbstractContextManager[Lanes]:
        """What runs both directions at once; one after the other, where a stream gains too little.

        Args:
            like: gives the device.
            steps: of the call.
        """
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
