"""The cost of a step of an alternating plan in ns."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...derive import Pointwise
from ...layout import layout_of
from ...shape import Direction, Shape
from ..block.cost import H200, traffic_nanoseconds
from ..limits import Limits
from ..mma import TILE_N
from .plan import OwnProduct


@dataclass(frozen=True)
class OwnCosts:
    """Constants of a fused step, calculated from measurements of its parts.

    Attributes:
        hop: ns from a step's end to the first load of the next step, with and without overlap.
        chain: ns of a step without data movement: sums, equations, stores.
        exchange: ns for the blocks of a cluster to add their sums.
        block_bandwidth: bytes per ns that one block reads from L2.
        bandwidth: bytes per ns that all blocks read from L2.
    """

    hop: tuple[float, float]
    chain: float
    exchange: float
    block_bandwidth: float
    bandwidth: float


OWN = OwnCosts(hop=(700, 1500), chain=700, exchange=300, block_bandwidth=40, bandwidth=5000)


def library_nanoseconds(pointwise: Pointwise, shape: Shape, direction: Direction) -> int:
    """The estimated time per step with the matrix library's product, in ns.

    Args:
        pointwise: of the cell.
        shape: all of it matters.
        direction: of the step.
    """
    pairs = len(pointwise.cell.dense_pairs)
    weights = pairs * shape.heads * shape.head_dim**2 * shape.element_bytes
    rows = math.ceil(shape.batch / 64)
    product = H200.product + rows * weights / H200.library_bandwidth if pairs else 0
    launches = 1.0 if direction == "forward" else 1.5
    return round(launches * H200.launch + product + traffic_nanoseconds(pointwise, shape))


def own_nanoseconds(
    pointwise: Pointwise, shape: Shape, limits: Limits, own: OwnProduct, direction: Direction
) -> int:
    """The same where one kernel per step multiplies too.

    Args:
        pointwise: of the cell.
        shape: all of it matters.
        limits: the GPU.
        own: the sizes of the kernel.
        direction: of the step.
    """
    layout = layout_of(pointwise.cell)
    pairs, sources = len(layout.pair_gates), len(layout.sources)
    blocks = shape.heads * math.ceil(shape.head_dim / TILE_N) * math.ceil(shape.batch / own.rows)
    waves = math.ceil(blocks / limits.multiprocessors)
    row = shape.head_dim * shape.element_bytes
    weights = TILE_N * pairs * row
    factors = own.rows * (sources * row if direction == "forward" else pairs * row / own.split)
    # A step waits for what the step before left; R is loaded meanwhile.
    chain = OWN.hop[0] + OWN.chain + waves * factors / OWN.block_bandwidth
    moved = blocks * (weights + factors) / OWN.bandwidth
    if own.overlapped:
        step = max(chain, OWN.hop[0] + moved)
    else:
        step = (
            OWN.hop[1] + OWN.chain + max(moved, waves * (weights + factors) / OWN.block_bandwidth)
        )
    if direction == "backward":
        step += OWN.exchange * (own.split > 1) + OWN.chain / 2
    return round(step + traffic_nanoseconds(pointwise, shape))
