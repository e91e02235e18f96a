"""The estimated time per step of a scan plan's kernel.

    step = the longest of chain, issue and traffic
    chain = scan.hop * exchanges / steps of a tile, of a scan whose tiles wait for others; else
            scan.turn / steps of a warp + scan.link * carried
    issue = channels per SM * (scan.value * values + scan.sum * sums + scan.entry * (entries - 1))
                                              (* scan.exact in float32 and float64)
            or, of blocks that take all tiles of their channels,
            channels of the fullest SM * (scan.value_in_order * values) * (scan.parts if in parts)
    traffic = of units, / scan.bandwidth

The chain is what a tile waits for of the tile before. A channel is a unit of a batch row; `values`
are the numbers that a step reads and writes, `sums` those that a backward adds over time, and
`entries` those of the matrix of what is carried.
"""

from __future__ import annotations

import math

from ..cost.estimate import Step
from ..cost.inputs import CostInputs
from ..cost.units import unit_traffic, values_moved
from .plan import ScanPlan


def scan_step(inputs: CostInputs, plan: ScanPlan) -> Step:
    """The cost model of a scan plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    scan, shape, direction = inputs.constants.scan, inputs.shape, plan.direction
    values, processors = values_moved(inputs, direction), inputs.limits.multiprocessors
    if plan.sequential:
        on_one = math.ceil(plan.groups(shape.batch, shape.heads, shape.head_dim) / processors)
        channels: float = on_one * plan.channels
        each = scan.value_in_order.of(direction) * values
        each *= scan.parts.of(direction) if plan.parts > 1 else 1
        chain = scan.turn / (plan.parts * plan.chunk) + scan.link.of(direction) * plan.carried
    else:
        channels = shape.batch * shape.heads * shape.head_dim / processors
        each = scan.value.of(direction) * values
        each += scan.entry.of(direction) * max(plan.linear**2 - 1, 0)
        if direction == "backward":
            each += scan.sum * plan.sums
        chain = scan.hop * plan.exchanges / plan.tile_steps
    exact = scan.exact if shape.element_bytes > 2 else 1
    issue = channels * shape.fill * each * exact
    longest = max(chain, issue, unit_traffic(inputs, direction) / scan.bandwidth)

    def step(exchange: bool = True, product: bool = True) -> float:
        return longest

    return step


def scan_start(inputs: CostInputs, plan: ScanPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
    """
    scan = inputs.constants.scan
    return scan.start_in_order if plan.sequential else scan.start.of(plan.direction)
