"""The cost of a step of a cluster plan in ns, and where its constants were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...derive import Pointwise
from ...layout import layout_of
from ...shape import DIRECTIONS, Shape
from ..block.cost import H200
from ..limits import Limits
from ..mma import GROUP_UNITS, TILE_N, WARP
from .plan import ClusterPlan

_SUM_BYTES = 4  # of what a block's product gives for a unit and row


@dataclass(frozen=True)
class ClusterCosts:
    """Constants of cluster plans on one GPU; pairs are forward, backward.

    Attributes:
        exchange: ns per step that nothing else fills: the latency of a push to the peers, barriers.
        size: additional ns, by the number of blocks in a cluster.
        kilobyte: additional ns per KiB that a block receives.
        each_warp: fixed ns per step, per warp on a scheduler.
        operation: ns per operation of the cell's equations, per round of a scheduler's warps.
        split: ns per additional warp that shares K.
        filled: the part of the multiprocessors that whole clusters can use.
    """

    exchange: tuple[float, float]
    size: dict[int, float]
    kilobyte: float
    each_warp: tuple[float, float]
    operation: tuple[float, float]
    split: float
    filled: float


# NVIDIA H200, CUDA 13.0, 2026-11-21: fitted to 27 plans of LSTM and sLSTM, head dims 64 to 512,
# batch 16, within 10 %.
H200_CLUSTER = ClusterCosts(
    exchange=(103, 190),
    size={2: 125, 3: 125, 4: 30, 6: 15, 8: 0, 12: 10, 16: 17},
    kilobyte=35,
    each_warp=(41, 16),
    operation=(6.5, 5.2),
    split=110,
    filled=0.9,
)


def cluster_nanoseconds(
    pointwise: Pointwise, shape: Shape, limits: Limits, kernel: ClusterPlan
) -> int:
    """The estimated time per step of a cluster plan's kernel, in ns.

    Args:
        pointwise: of the cell.
        shape: batch and heads say how many clusters there are.
        limits: the GPU.
        kernel: the plan, whose own estimate is not read.
    """
    costs, sources = H200_CLUSTER, len(layout_of(pointwise.cell).sources)
    direction, forward = DIRECTIONS.index(kernel.direction), kernel.direction == "forward"
    each = shape.element_bytes if forward else _SUM_BYTES
    taken_in = sources * kernel.cluster * kernel.units * TILE_N * each / 1024
    exchange = costs.exchange[direction] + costs.size[kernel.cluster] + costs.kilobyte * taken_in
    alone = exchange if sources else 0
    alone += costs.split * (kernel.splits - 1)
    busy = math.ceil(kernel.warps / H200.schedulers)
    # A fragment of R is four registers of an instruction's warp.
    matrix = busy * kernel.matrix_registers / 4 * H200.matrix / H200.clock
    matrix *= H200.float32 if shape.dtype == "float32" else 1
    operations = pointwise.program(kernel.direction).operations
    # Two columns a thread of the forward, one where warps share K; of the backward's warps as many
    # as have units.
    at_once = min(kernel.splits, 2) * kernel.units / GROUP_UNITS if forward else kernel.warps
    item_warps = math.ceil(kernel.units * TILE_N / WARP)
    turns = math.ceil(item_warps / at_once)
    turns *= math.ceil(min(at_once, item_warps) / H200.schedulers)
    items = turns * operations * costs.operation[direction]
    work = matrix + busy * costs.each_warp[direction] + items
    # Blocks that share a multiprocessor hide each other's waiting, not each other's work.
    clusters = shape.heads * math.ceil(shape.batch / TILE_N)
    room = costs.filled * limits.multiprocessors / kernel.cluster
    together = max(min(math.ceil(clusters / room), kernel.blocks_per_multiprocessor), 1)
    waves = math.ceil(clusters / max(math.floor(room * together), 1))
    return round(waves * (alone + together * work))
