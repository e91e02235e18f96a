"""The estimated time per step of a grid plan's kernel.

    step      = waves * (hops * hop + work)                                  with one phase
    step      = waves * phases * max(work + hops * grid.phase, hops * hop + 0.65 * work)
                                                                             with more
    work      = gathered + product + pointwise
    hop       = grid.hop + grid.cluster_hop[cluster] + blocks * grid.block (+ grid.sector)
    gathered  = KiB * grid.gather (+ warps * grid.cluster_warp in clusters)
    product   = max(instructions * (warps_per_scheduler * grid.matrix + grid.chain),
                    streamed bytes / bandwidth)
                + products * warps * (0.6 + 0.4 * tiles) * grid.warp
    pointwise = (items - 1) * grid.item + items * operations * grid.operation
    start     = waves * (grid.start + KiB of R * grid.load)

`work` is that of one phase. While the data of one phase is on its way, the other phases are worked
on: work hides at most 0.35 as much of a hop as it takes. Hop, gathered and `grid.phase` are the
exchange. `KiB` is what a block gathers per phase, `tiles` the number of tiles of batch rows per
phase, `items` the number of units of batch rows per thread. In TF32 `grid.chain_tf32` is added to
`grid.chain`, and 3xTF32 takes `chip.float32` times as many instructions. Streamed parts of R come
while the rest is multiplied, at `grid.l2_bandwidth` if all of them fit the L2 cache, else at
`grid.memory_bandwidth`.

`hops` is 1, and `products` too. In a cell with stages they count how often blocks wait for each
other in a step, and how often for products.
"""

from __future__ import annotations

import math

from ..cost.constants import PerDirection
from ..cost.estimate import Step
from ..cost.fitted import constants_for
from ..cost.inputs import CostInputs
from ..cost.waves import launches_of
from ..limits import KIB, Limits
from ..mma import K_TILE_BYTES, K_TILE_REGISTERS, SCHEDULERS, SECTOR_BYTES, TILE_N, WARP
from ..stage_tables import stage_tables
from .exchange import exchanges
from .plan import GridPlan

_SHOWN = 0.65  # of a phase's work that hides nothing of its hop


def least_grid_nanoseconds(limits: Limits) -> PerDirection:
    """A lower bound of every grid kernel's estimate: a hop without work.

    Args:
        limits: the GPU.
    """
    return constants_for(limits).grid.hop


def grid_step(inputs: CostInputs, plan: GridPlan) -> Step:
    """The cost model of a grid plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    shape, grid, direction = inputs.shape, inputs.constants.grid, plan.direction
    waves = _waves(inputs, plan)
    tiles = plan.rows // TILE_N // plan.phases
    rows = TILE_N * tiles
    gathered = rows * plan.exchange_k_tiles * K_TILE_BYTES / plan.cluster / KIB
    gather = gathered * grid.gather.of(direction)
    multiply = _multiply(inputs, plan, tiles)
    hops, products = exchanges(stage_tables(inputs.pointwise, direction))
    partial_sums = products * plan.warps * grid.warp.of(direction) * (0.6 + 0.4 * tiles)
    cluster_sums = plan.warps * grid.cluster_warp if plan.cluster > 1 else 0
    items = math.ceil(rows * plan.units / plan.threads)
    further_items = (items - 1) * grid.item.of(direction)
    equations = items * inputs.equations(direction, grid.operation)
    hop = grid.hop.of(direction) + grid.cluster_hop[plan.cluster]
    hop += grid.block.of(direction) * plan.blocks * shape.heads * plan.groups
    if plan.units * shape.element_bytes < SECTOR_BYTES:
        hop += grid.sector.of(direction)

    def step(exchange: bool = True, product: bool = True) -> float:
        work = exchange * gather + product * multiply + product * partial_sums
        work += exchange * cluster_sums
        work += further_items
        work += equations
        if plan.phases == 1:
            return waves * (exchange * hops * hop + work)
        phase = work + exchange * hops * grid.phase.of(direction)
        return waves * plan.phases * max(phase, exchange * hops * hop + _SHOWN * work)

    return step


def grid_start(inputs: CostInputs, plan: GridPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
    """
    grid, direction = inputs.constants.grid, plan.direction
    kib = plan.warps * plan.tiles * plan.k_tiles * WARP * K_TILE_REGISTERS * 4 / KIB
    return _waves(inputs, plan) * (grid.start.of(direction) + kib * grid.load.of(direction))


def _waves(inputs: CostInputs, plan: GridPlan) -> float:
    """The number of launches that run all steps, or as many shorter ones."""
    launches = math.ceil(math.ceil(inputs.shape.batch / plan.rows) / plan.groups)
    return launches_of(inputs.shape, launches)


def _multiply(inputs: CostInputs, plan: GridPlan, tiles: int) -> float:
    """The time of the matrix instructions of one phase, or of the stream if it takes longer.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
        tiles: tiles of batch rows per phase.
    """
    grid, direction = inputs.constants.grid, plan.direction
    # A fragment is the operand of one warp instruction: two per tile and k-tile, wherever stored.
    instructions = 2 * plan.tiles * plan.k_tiles * tiles * inputs.float32_factor
    warps = math.ceil(plan.warps / SCHEDULERS)
    chain = grid.chain.of(direction)
    if inputs.shape.dtype == "float32" and inputs.tf32:
        chain += grid.chain_tf32.of(direction)
    multiply = instructions * (warps * grid.matrix.of(direction) + chain)
    streamed = inputs.shape.heads * plan.groups * plan.blocks * plan.streamed_bytes
    bandwidth = grid.l2_bandwidth if streamed <= inputs.limits.l2 else grid.memory_bandwidth
    return max(multiply, streamed / bandwidth)
