"""The plan of a call's kernels, by its dtype and its direction of time."""

from __future__ import annotations

from itertools import product

import torch

from ...codegen.cpu.plan import CpuPlan
from ...codegen.shape import Reverse
from ..call.tensors import DTYPES

COMPUTED = (torch.float32, torch.float64)
_REVERSES: tuple[Reverse, ...] = (False, True, "half")
_FLAGS = tuple(product(_REVERSES, (False, True), (False, True)))
_PLANS = {(dtype, *flags): CpuPlan(DTYPES[dtype], *flags) for dtype in COMPUTED for flags in _FLAGS}


def plan_of(
    dtype: torch.dtype, reverse: Reverse = False, single_step: bool = False, masked: bool = False
) -> CpuPlan:
    """Return the plan of calls that are computed in a dtype."""
    return _PLANS[dtype, reverse, single_step, masked]
