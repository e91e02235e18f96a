"""The choice between one call of both directions of a layer and a call of each."""

from __future__ import annotations

from functools import lru_cache

import torch

from ....codegen.cuda.directions import joined
from ....codegen.shape import PlanError
from ...call.layer_call import LayerCall
from ...store.tuned import planned
from ..choose import question_of


@lru_cache(maxsize=2048)
def joins(
    layer_call: LayerCall, batch: int, heads: int, dim: int, dtype: torch.dtype, device: int
) -> bool:
    """Return True if one call of both directions, of twice the heads, is better."""
    choice = layer_call.choice
    try:
        one, both = (
            planned(question_of(layer_call, batch, count, dim, dtype, device).asked, choice.variant)
            for count in (heads, 2 * heads)
        )
    except PlanError:
        return False
    return joined(one, both, choice.fill)
