"""What a step of a cluster plan costs in ns, and where its constants were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .cluster_plan import ClusterKernel
from .cost import H200
from .derive import Pointwise
from .layout import layout_of
from .limits import Limits
from .shape import Shape

_COLUMNS = 8  # of a product: batch rows
_SUM_BYTES = 4  # of what a block's product gives for a unit and row


@dataclass(frozen=True)
class ClusterCosts:
    """Constants of an architecture, beside those of all fused plans.

    Attributes:
        push: ns until all peers have what a block pushed, by the size of the cluster.
        kilobyte: ns more for each KiB that a block takes in, likewise.
        chain: ns of a step, forward and backward, that no other work fills: the first instructions
            of the product, the pointwise map, barriers of the block.
        item: instructions of a (unit, batch row) beside its equations that lie on that chain.
        split: ns of a sum of several warps.
        filled: which part of the multiprocessors whole clusters can have.
    """

    push: dict[int, float]
    kilobyte: dict[int, float]
    chain: tuple[float, float]
    item: float
    split: float
    filled: float


# NVIDIA H200, 2026-11-20: all-gathers of 2, 4 and 8 KiB by st.async, a line through each three;
# what is not a power of two lies between its neighbours.
H200_CLUSTER = ClusterCosts(
    push={2: 166, 3: 184, 4: 201, 6: 195, 8: 188, 12: 190, 16: 193},
    kilobyte={2: 32, 3: 32, 4: 32, 6: 32, 8: 32, 12: 36, 16: 39},
    chain=(100, 130),
    item=25,
    split=35,
    filled=0.9,
)


def cluster_nanoseconds(
    pointwise: Pointwise, shape: Shape, limits: Limits, kernel: ClusterKernel, *, forward: bool
) -> int:
    """An estimate of a step of one direction of a cluster plan, in ns.

    Args:
        pointwise: of the cell.
        shape: batch and heads say how many clusters there are.
        limits: the GPU.
        kernel: the sizes of that direction.
        forward: which direction it is.
    """
    costs, sources = H200_CLUSTER, len(layout_of(pointwise.cell).sources)
    each = shape.element_bytes if forward else _SUM_BYTES
    taken_in = sources * kernel.cluster * kernel.units * _COLUMNS * each / 1024
    exchange = costs.push[kernel.cluster] + costs.kilobyte[kernel.cluster] * taken_in
    exchange = exchange if sources else 0
    busy = math.ceil(kernel.warps / H200.schedulers)
    # A fragment of R is four registers of an instruction's warp; float32 takes three products of
    # half the depth.
    matrix = busy * kernel.matrix_registers / 4 * H200.matrix
    matrix *= 3 if shape.dtype == "float32" else 1
    operations = (pointwise.forward if forward else pointwise.backward).operations
    # Two columns a thread of the forward, one where warps share K; of the backward's warps as many
    # as have units.
    at_once = min(kernel.splits, 2) * kernel.units / 8 if forward else kernel.warps
    item_warps = math.ceil(kernel.units * _COLUMNS / 32)
    turns = math.ceil(item_warps / at_once)
    turns *= math.ceil(min(at_once, item_warps) / H200.schedulers)
    items = turns * (operations + costs.item)
    alone = exchange + costs.chain[not forward] + costs.split * (kernel.splits > 1)
    # Blocks that share a multiprocessor hide each other's waiting, not each other's work.
    clusters = shape.heads * math.ceil(shape.batch / _COLUMNS)
    room = costs.filled * limits.multiprocessors / kernel.cluster
    together = max(min(math.ceil(clusters / room), kernel.blocks_per_multiprocessor), 1)
    waves = math.ceil(clusters / max(math.floor(room * together), 1))
    return round(waves * (alone + together * (matrix + items) / H200.clock))
