"""The cost of a step of a grid plan in ns, and where its constants were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...derive import Pointwise
from ...shape import DIRECTIONS, Shape
from ..limits import Limits
from ..mma import K_TILE_BYTES, SCHEDULERS, SECTOR_BYTES, TILE_N
from .plan import GridPlan


@dataclass(frozen=True)
class GridCosts:
    """Constants of an architecture; pairs: forward, backward.

    Attributes:
        hop: ns from a block's publishing a value to another's computing with it, beside the bytes.
        gather: ns of a KiB that a block takes in from L2.
        block: ns of each block on the chip: the more wait for each other, the later the last is.
        sector: ns where two blocks write the same 32 bytes, as those of 8 two-byte units do.
        cluster_hop: ns of adding sums among the blocks of a cluster, by its size.
        matrix: ns of a scheduler's matrix unit for one m16n8k16 instruction.
        chain: ns that an instruction makes the next of its warp wait.
        float32: how many times as long float32 takes, as in `cost`.
        stream: bytes a ns that all blocks read of what is streamed, where the L2 cache holds it and
            where it does not.
        warp: ns of a warp that K is shared with, for adding what it found.
        share: ns more of such a warp where blocks of a cluster send each other sums.
        item: ns of an item of a thread, a unit of a batch row, after the first.
        operation: ns of each operation of its equations.
        phase: ns of a phase that its own work does not explain.
    """

    hop: tuple[float, float]
    gather: tuple[float, float]
    block: tuple[float, float]
    sector: tuple[float, float]
    cluster_hop: tuple[tuple[int, float], ...]
    matrix: tuple[float, float]
    chain: tuple[float, float]
    float32: float
    stream: tuple[float, float]
    warp: tuple[float, float]
    share: float
    item: tuple[float, float]
    operation: tuple[float, float]
    phase: tuple[float, float]


# NVIDIA H200, CUDA 13.0, 2026-11-21: fitted to 71 forward and 147 backward kernels of LSTM, GRU,
# sLSTM and Elman from 1 x 512 to 1 x 2048, batch 2 to 64, within 3 and 6 % in the mean
# (docs/performance.md). Other GPUs borrow them: their ranking stands, their ns are a guess. No plan
# that streams was among those: L2 is taken to give each of 132 blocks 42 bytes a ns, memory what
# it gives others (`cost.H200.bandwidth`).
H200 = GridCosts(
    hop=(686, 886),
    gather=(16.4, 14.1),
    block=(0.56, 0),
    sector=(122, 91),
    cluster_hop=((1, 0), (2, 163), (4, 334), (8, 407), (16, 410)),
    matrix=(2.4, 5.55),
    chain=(6.7, 9.45),
    float32=10,
    stream=(5500, 4300),
    warp=(14.2, 5.1),
    share=20.4,
    item=(100, 320),
    operation=(3.35, 2.3),
    phase=(320, 870),
)


def least_grid_nanoseconds() -> tuple[float, float]:
    """What no step of a grid plan undercuts, forward and backward: a hop, and no work."""
    return H200.hop


def grid_nanoseconds(pointwise: Pointwise, shape: Shape, limits: Limits, kernel: GridPlan) -> float:
    """The estimated time per step of a grid plan's kernel, in ns, where all its blocks run at once.

    Args:
        pointwise: of the cell.
        shape: gives heads and dtype.
        limits: the GPU.
        kernel: the plan, whose own estimate is not read.
    """
    direction = DIRECTIONS.index(kernel.direction)
    phases, groups = kernel.phases, shape.heads * kernel.groups
    tiles = kernel.rows // TILE_N // phases
    rows = TILE_N * tiles
    operations = pointwise.program(kernel.direction).operations
    gathered = rows * kernel.exchange_chunks * K_TILE_BYTES / kernel.cluster / 1024
    # A fragment is the operand of one warp instruction: two per tile and k-tile, wherever stored.
    slower = H200.float32 if shape.dtype == "float32" else 1
    instructions = 2 * kernel.tiles * kernel.chunks * tiles * slower
    turns = math.ceil(kernel.warps / SCHEDULERS)
    product = instructions * (turns * H200.matrix[direction] + H200.chain[direction])
    streamed = groups * kernel.blocks * kernel.streamed_bytes
    # What is streamed is on its way while the rest of R is multiplied.
    product = max(product, streamed / H200.stream[0 if streamed <= limits.l2 else 1])
    items = math.ceil(rows * kernel.units / kernel.threads)
    work = (
        gathered * H200.gather[direction]
        + product
        + kernel.warps * H200.warp[direction] * (0.6 + 0.4 * tiles)
        + (kernel.warps * H200.share if kernel.cluster > 1 else 0)
        + (items - 1) * H200.item[direction]
        + items * operations * H200.operation[direction]
    )
    hop = H200.hop[direction] + dict(H200.cluster_hop)[kernel.cluster]
    hop += H200.block[direction] * kernel.blocks * groups
    if kernel.units * shape.element_bytes < SECTOR_BYTES:
        hop += H200.sector[direction]
    # A phase's data is on its way while the others are worked on.
    return max(hop + work, phases * (work + H200.phase[direction])) if phases > 1 else hop + work
