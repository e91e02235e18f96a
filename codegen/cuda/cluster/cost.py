"""The estimated time per step of a cluster plan's kernel.

    step      = waves * (exchange + product + pointwise)
    exchange  = cluster.exchange + cluster.size[blocks] + KiB * cluster.received
    product   = (splits - 1) * cluster.split
                + blocks_per_sm * fragments * (warps * cluster.matrix     (* chip.float32 in 3xTF32)
                                               + cluster.chain)       (or chain_float32 in float32)
    pointwise = blocks_per_sm * (warps * cluster.each_warp + rounds * (
                    operations * cluster.operation                    (* cluster.exact in float32)
                    + gates * cluster.gate))
    start     = waves * (cluster.start + blocks_per_sm * KiB of R * cluster.load)

`waves` is how often all SMs are filled with clusters. `KiB` is what a block receives. `warps` is
the number of a block's warps per scheduler, `fragments` the number of fragments of R per thread,
and `splits` the number of warps that share K. `rounds` is how often the warps of a scheduler
compute the equations, `operations` the number of operations in them, and `gates` the number of
gates without input, in the backward. A cell without dense recurrence has no exchange. One with
stages has a further exchange for each stage that waits within a step: nothing else runs while it is
in flight, and parts of statistics are few bytes, but are joined in several turns. In its backward
warps count as one round. Where the bytes that a unit saves are no power of two, its threads store
them in pieces, and the pushes of their block wait for these stores.
"""

from __future__ import annotations

import math

from ...layout import layout_of
from ..cost.estimate import Step
from ..cost.inputs import CostInputs
from ..cost.waves import waves_of
from ..limits import KIB
from ..mma import FRAGMENT_REGISTERS, GROUP_UNITS, SCHEDULERS, TILE_N, WARP
from ..stage_tables import stage_tables
from .plan import ClusterPlan

_WIDEST_BYTES = 16  # of a store
_SUM_BYTES = 4  # of a partial sum: the backward sends one per unit and batch row


def cluster_step(inputs: CostInputs, plan: ClusterPlan) -> Step:
    """The cost model of a cluster plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    cluster, direction = inputs.constants.cluster, plan.direction
    per_sm, waves = _waves(inputs, plan)
    warps = math.ceil(plan.warps / SCHEDULERS)
    push = _push(inputs, plan)
    split_sums = cluster.split.of(direction) * (plan.splits - 1)
    exact = inputs.shape.dtype == "float32"
    chain = (cluster.chain_float32 if exact else cluster.chain).of(direction)
    fragment = warps * cluster.matrix.of(direction) * inputs.float32_factor + chain
    multiply = plan.matrix_registers / FRAGMENT_REGISTERS * fragment
    equations = inputs.equations(direction, cluster.operation, cluster.exact)
    equations += inputs.gates_without_input * cluster.gate.of(direction)
    pointwise = warps * cluster.each_warp.of(direction) + _rounds(inputs, plan) * equations

    def step(exchange: bool = True, product: bool = True) -> float:
        work = product * multiply + pointwise
        return waves * (exchange * push + product * split_sums + per_sm * work)

    return step


def cluster_start(inputs: CostInputs, plan: ClusterPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
    """
    cluster, direction = inputs.constants.cluster, plan.direction
    per_sm, waves = _waves(inputs, plan)
    load = per_sm * plan.matrix_kib * cluster.load.of(direction)
    return waves * (cluster.start.of(direction) + load)


def _waves(inputs: CostInputs, plan: ClusterPlan) -> tuple[int, float]:
    """Clusters that share SMs, which hide each other's latency, not each other's work; and waves of
    them.
    """
    tiles = math.ceil(inputs.shape.batch / TILE_N)
    clusters = inputs.shape.heads * tiles
    room = max(inputs.limits.resident(plan.cluster) // plan.cluster, 1)
    per_sm = min(math.ceil(clusters / room), plan.resident)
    return per_sm, waves_of(inputs.shape, tiles, room * per_sm)


def _push(inputs: CostInputs, plan: ClusterPlan) -> float:
    """The time of a step's pushes, of states or of partial sums, to all blocks of a cluster."""
    cluster, direction = inputs.constants.cluster, plan.direction
    sources = len(layout_of(inputs.pointwise.cell).sources)
    exchanges = min(sources, 1)
    further = 0.0
    if tables := stage_tables(inputs.pointwise, direction):
        sources = len(tables.sources)
        exchanges += tables.meetings
        called = len(tables.called_stages)
        further = called * cluster.called.of(direction)
        further += tables.meetings * plan.cluster * cluster.part.of(direction)
        further += (tables.meetings - called) * cluster.statistics.of(direction)
        if direction == "forward":
            further += cluster.store * _further_stores(inputs) * max(plan.warps - 2, 0)
    if not exchanges:
        return 0
    element_bytes = inputs.shape.element_bytes if direction == "forward" else _SUM_BYTES
    received = sources * plan.cluster * plan.units * TILE_N * element_bytes / KIB
    # Of a size that was not timed, the time of the next larger one.
    size = min(size for size in cluster.size if size >= plan.cluster)
    latency = cluster.exchange.of(direction) + cluster.size[size].of(direction)
    return further + exchanges * latency + cluster.received.of(direction) * received


def _further_stores(inputs: CostInputs) -> int:
    """Return how many stores a thread makes of the values that a unit saves, beyond one."""
    size = len(inputs.pointwise.saved) * inputs.shape.element_bytes
    widest = math.gcd(size, _WIDEST_BYTES)
    return max(size // widest - 1, 0) if widest else 0


def _rounds(inputs: CostInputs, plan: ClusterPlan) -> int:
    """Return how often the warps of one scheduler compute the equations, one after the other."""
    item_warps = math.ceil(plan.units * TILE_N / WARP)
    if plan.direction == "forward":
        # A thread has two batch rows, or one where warps share K.
        at_once = min(plan.splits, 2) * plan.units / GROUP_UNITS
    else:
        at_once = plan.warps
    rounds = math.ceil(item_warps / at_once)
    if inputs.pointwise.stages and plan.direction == "backward":
        # Between exchanges, warps hide each other's latency: of LEM and a normed LSTM, 3 x 256 on
        # an H100, 8 warps of 32 units take less than 4 warps of 16.
        return rounds
    return rounds * math.ceil(min(at_once, item_warps) / SCHEDULERS)
