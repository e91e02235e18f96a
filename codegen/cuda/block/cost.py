"""The estimated time per step of a block plan's kernel.

    step      = waves * (exchange + product + pointwise), or the traffic if that takes longer
    exchange  = block.exchange
    product   = warps * fragments * chip.matrix / chip.clock    (* chip.float32 in float32)
    pointwise = items * (block.chain + operations * block.operation
                         + (warps - 1) * block.further_warp)

`waves` is how often all SMs are filled with blocks. `warps` is the number of warps per scheduler,
of all blocks on an SM. Per thread, `fragments` is the number of fragments of R, and `items` the
number of items; an item is a unit of a batch row. `operations` is the number of operations in the
cell's equations. If the traffic takes longer, it is the whole step, all of it pointwise.
"""

from __future__ import annotations

import math

from ..cost_inputs import CostInputs
from ..estimate import Step
from ..mma import SCHEDULERS
from .plan import BlockPlan

_ITEM_ROWS = 4  # batch rows per item of a thread in a group of units


def block_step(inputs: CostInputs, plan: BlockPlan) -> Step:
    """The cost model of a block plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    shape, limits = inputs.shape, inputs.limits
    block, direction = inputs.constants.block, plan.direction
    blocks = shape.heads * math.ceil(shape.batch / plan.rows)
    # Blocks that share an SM hide each other's latency, not each other's work.
    per_sm = min(math.ceil(blocks / limits.multiprocessors), plan.blocks_per_multiprocessor)
    waves = math.ceil(blocks / (limits.multiprocessors * per_sm))
    warps = math.ceil(per_sm * plan.warps / SCHEDULERS)
    multiply = inputs.register_product(plan.matrix_registers, warps)
    item = block.chain.of(direction)
    item += inputs.operations(direction) * block.operation.of(direction)
    further_warps = (warps - 1) * block.further_warp.of(direction)
    items = plan.unit_groups * plan.rows // _ITEM_ROWS * (item + further_warps)
    traffic = inputs.traffic()

    def step(exchange: bool = True, product: bool = True) -> float:
        wave = exchange * block.exchange.of(direction) + items + product * multiply
        return max(waves * wave, traffic)

    return step
