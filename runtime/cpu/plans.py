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
    """The plan.

    Args:
        dtype: in which a call is computed.
        reverse: which heads run from the last step to the first.
        single_step: whether it is for single steps.
        masked: whether calls have masks.
    """
    return CpuPlan(DTYPES[dtype], reverse, single_step, masked)
