"""The estimated time per step of a scan plan's kernel."""

from __future__ import annotations

from ..cost.estimate import Step
from ..cost.inputs import CostInputs
from .plan import ScanPlan


def scan_step(inputs: CostInputs, plan: ScanPlan) -> Step:
    """The cost model of a scan plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    longest = inputs.traffic() / 0.5

    def step(exchange: bool = True, product: bool = True) -> float:
        return longest

    return step


def scan_start(inputs: CostInputs, plan: ScanPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
    """
    return 8000
