"""The estimated time per step of a cluster plan's kernel.

    step      = waves * (exchange + product + pointwise)
    exchange  = cluster.exchange + cluster.size[blocks] + KiB * cluster.received
    product   = (splits - 1) * cluster.split
                + blocks_per_sm * warps * fragments * chip.matrix / chip.clock
                                                               (* chip.float32 in float32)
    pointwise = blocks_per_sm * (warps * cluster.each_warp
                                 + rounds * operations * cluster.operation)

`waves` is how often all SMs are filled with clusters. `KiB` is what a block receives. `warps` is
the number of a block's warps per scheduler, `fragments` the number of fragments of R per thread,
and `splits` the number of warps that share K. `rounds` is how often the warps of a scheduler
compute the equations, and `operations` the number of operations in them. A cell without dense
recurrence has no exchange.
"""

from __future__ import annotations

import math

from ...layout import layout_of
from ..cost_inputs import CostInputs
from ..estimate import Step
from ..limits import KIB
from ..mma import GROUP_UNITS, SCHEDULERS, TILE_N, WARP
from .plan import ClusterPlan

_SUM_BYTES = 4  # of a partial sum: the backward sends one per unit and batch row


def cluster_step(inputs: CostInputs, plan: ClusterPlan) -> Step:
    """The cost model of a cluster plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    shape, limits = inputs.shape, inputs.limits
    cluster, direction = inputs.constants.cluster, plan.direction
    clusters = shape.heads * math.ceil(shape.batch / TILE_N)
    # Blocks that share an SM hide each other's latency, not each other's work.
    room = cluster.filled * limits.multiprocessors / plan.cluster
    per_sm = max(min(math.ceil(clusters / room), plan.blocks_per_multiprocessor), 1)
    waves = math.ceil(clusters / max(math.floor(room * per_sm), 1))
    warps = math.ceil(plan.warps / SCHEDULERS)
    push = _push(inputs, plan)
    split_sums = cluster.split * (plan.splits - 1)
    multiply = inputs.register_product(plan.matrix_registers, warps)
    operations = _rounds(plan) * inputs.operations(direction)

    def step(exchange: bool = True, product: bool = True) -> float:
        work = product * multiply + warps * cluster.each_warp.of(direction)
        work += operations * cluster.operation.of(direction)
        return waves * (exchange * push + product * split_sums + per_sm * work)

    return step


def _push(inputs: CostInputs, plan: ClusterPlan) -> float:
    """The time of a push of states, or of partial sums, to all blocks of a cluster."""
    sources = len(layout_of(inputs.pointwise.cell).sources)
    if not sources:
        return 0
    cluster, direction = inputs.constants.cluster, plan.direction
    element_bytes = inputs.shape.element_bytes if direction == "forward" else _SUM_BYTES
    received = sources * plan.cluster * plan.units * TILE_N * element_bytes / KIB
    latency = cluster.exchange.of(direction) + cluster.size[plan.cluster]
    return latency + cluster.received * received


def _rounds(plan: ClusterPlan) -> int:
    """How often the warps of one scheduler compute the equations, one after the other."""
    item_warps = math.ceil(plan.units * TILE_N / WARP)
    if plan.direction == "forward":
        # A thread has two batch rows, or one where warps share K.
        at_once = min(plan.splits, 2) * plan.units / GROUP_UNITS
    else:
        at_once = plan.warps
    return math.ceil(item_warps / at_once) * math.ceil(min(at_once, item_warps) / SCHEDULERS)
