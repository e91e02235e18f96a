"""The estimated time per step of a block plan's kernel.

    step      = waves * (exchange + product + pointwise), or the traffic if that takes longer
    exchange  = block.exchange + block_warps * block.warp
    product   = warps * fragments * block.matrix                   (* chip.float32 in 3xTF32)
    pointwise = items * (block.chain + operations * block.operation      (* block.exact in float32)
                         + gates * block.gate + (warps - 1) * block.further_warp)
    start     = waves * (block.start + blocks_per_sm * KiB * block.load)

`waves` is how often all SMs are filled with blocks. `warps` is the number of warps per scheduler,
of all blocks on an SM. Per thread, `fragments` is the number of fragments of R, and `items` the
number of items; an item is a unit of a batch row. `operations` is the number of operations in the
cell's equations, `gates` the number of gates without input, in the backward. `KiB` is what a block
holds of R. If the traffic takes longer, it is the whole step, all of it pointwise.

Where units meet again within a step, as those of a cell with stages do, the exchange takes as long
as a forward's for each time more: on an H100 it was 90 to 130 ns, by cell.
"""

from __future__ import annotations

import math

from ..cost.estimate import Step
from ..cost.inputs import CostInputs
from ..cost.waves import waves_of
from ..mma import FRAGMENT_REGISTERS, SCHEDULERS
from ..stage_tables import stage_tables
from .plan import BlockPlan

_ITEM_ROWS = 4  # batch rows per item of a thread in a group of units


def block_step(inputs: CostInputs, plan: BlockPlan) -> Step:
    """The cost model of a block plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    block, direction = inputs.constants.block, plan.direction
    per_sm, waves = _waves(inputs, plan)
    warps = math.ceil(per_sm * plan.warps / SCHEDULERS)
    barrier = block.exchange.of(direction) + plan.warps * block.warp.of(direction)
    tables = stage_tables(inputs.pointwise, direction)
    if tables:
        further = block.exchange.forward + plan.warps * block.warp.forward
        barrier += tables.meetings * further
    fragments = plan.matrix_registers / FRAGMENT_REGISTERS
    multiply = warps * fragments * block.matrix.of(direction) * inputs.float32_factor
    item = block.chain.of(direction)
    item += inputs.equations(direction, block.operation, block.exact)
    item += inputs.gates_without_input * block.gate.of(direction)
    further_warps = (warps - 1) * block.further_warp.of(direction)
    items = plan.unit_groups * plan.rows // _ITEM_ROWS * (item + further_warps)
    traffic = inputs.traffic()

    def step(exchange: bool = True, product: bool = True) -> float:
        wave = exchange * barrier + items + product * multiply
        return max(waves * wave, traffic)

    return step


def block_start(inputs: CostInputs, plan: BlockPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
    """
    block, direction = inputs.constants.block, plan.direction
    per_sm, waves = _waves(inputs, plan)
    load = per_sm * plan.matrix_kib * block.load.of(direction)
    return waves * (block.start.of(direction) + load)


def _waves(inputs: CostInputs, plan: BlockPlan) -> tuple[int, float]:
    """Blocks per SM, which hide each other's latency, not each other's work; and waves of them."""
    multiprocessors = inputs.limits.multiprocessors
    tiles = math.ceil(inputs.shape.batch / plan.rows)
    blocks = inputs.shape.heads * tiles
    per_sm = min(math.ceil(blocks / multiprocessors), plan.resident)
    return per_sm, waves_of(inputs.shape, tiles, multiprocessors * per_sm)
