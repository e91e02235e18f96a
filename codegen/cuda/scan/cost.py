"""The estimated time per step of a scan plan's kernel.

    step = the longest of chain, issue and traffic
    chain = scan.hop / steps of a tile
    issue = channels per SM * (scan.value * values + scan.sum * sums + scan.entry * (entries - 1))
                                              (* scan.exact in float32 and float64)
    traffic = of all plans, / scan.bandwidth

The chain is what a tile waits for of the tile before. A channel is a unit of a batch row; `values`
are the numbers that a step reads and writes, `sums` those that a backward adds over time, and
`entries` those of the matrix of what is carried.
"""

from __future__ import annotations

from ...layout import layout_of, states_read_before
from ..cost.estimate import Step
from ..cost.inputs import CostInputs
from .plan import ScanPlan


def scan_step(inputs: CostInputs, plan: ScanPlan) -> Step:
    """The cost model of a scan plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    scan, shape, direction = inputs.constants.scan, inputs.shape, plan.direction
    channels = shape.batch * shape.heads * shape.head_dim * shape.fill
    each = scan.value.of(direction) * _values(inputs, plan)
    each += scan.entry.of(direction) * (plan.carried**2 - 1)
    if direction == "backward":
        each += scan.sum * plan.sums
    exact = scan.exact if shape.element_bytes > 2 else 1
    issue = channels / inputs.limits.multiprocessors * each * exact
    longest = max(scan.hop / plan.tile_steps, issue, inputs.traffic() / scan.bandwidth)

    def step(exchange: bool = True, product: bool = True) -> float:
        return longest

    return step


def scan_start(inputs: CostInputs, plan: ScanPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
    """
    return inputs.constants.scan.start.of(plan.direction)


def _values(inputs: CostInputs, plan: ScanPlan) -> int:
    """The numbers that a step of a channel reads and writes."""
    pointwise = inputs.pointwise
    layout = layout_of(pointwise.cell)
    values = len(pointwise.saved) + len(layout.states) + len(layout.unweighted)
    if plan.direction == "forward":
        return values + len(layout.input_gates)
    return values + len(layout.gradients) + sum(states_read_before(pointwise))
