"""The plan of a call's kernels, by its dtype and its direction of time."""

from __future__ import annotations

from functools import cache

import torch

from ...codegen.cpu.plan import CpuPlan
from ...codegen.shape import Dtype, Reverse

DTYPES: dict[torch.dtype, Dtype] = {torch.float32: "float32", torch.float64: "float64"}


@cache
def plan_of(
    dtype: torch.dtype, reverse: Reverse = False, single_step: bool = False, masked: bool = False
) -> CpuPlan:
    """Return the plan of calls that are computed in a dtype."""
    return CpuPlan(DTYPES[dtype], reverse, single_step, masked)
