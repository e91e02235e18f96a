"""What a step of a grid plan costs in ns, and where the constants were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .derive import Pointwise
from .grid_plan import CHUNK_BYTES, TILE_ROWS, GridKernel
from .shape import Shape


@dataclass(frozen=True)
class GridCosts:
    """Constants of an architecture.

    Attributes:
        clock: cycles a ns, under this load.
        hop: ns from a block's publishing a value to another's computing with it, beside the bytes.
        gather: bytes a ns that a block takes in from L2.
        block: ns of each block on the chip: the more wait for each other, the later the last is.
        sector: ns where two blocks write the same 32 bytes, as those of 8 two-byte units do.
        cluster_hop: ns of adding sums among the blocks of a cluster, by its size.
        matrix: cycles of a scheduler's matrix unit for one m16n8k16 instruction.
        float32: how many times as long float32 takes, as in `cost`.
        shared: bytes a cycle that a block reads from shared memory.
        warp: ns of a warp that K is shared with, forward and backward, for adding what it found.
        chunk: ns of a chunk of K that a warp takes one after the other.
        item: ns of an item of a thread, a unit of a batch row, after the first.
        operation: ns of each operation of its equations.
        phase: ns of a phase that its own work does not explain.
    """

    clock: float
    hop: float
    gather: float
    block: float
    sector: float
    cluster_hop: tuple[tuple[int, float], ...]
    matrix: float
    float32: float
    shared: float
    warp: tuple[float, float]
    chunk: float
    item: float
    operation: float
    phase: float


# NVIDIA H200, CUDA 13.0, 2026-11-21: fitted to LSTM, GRU, sLSTM and Elman from 1 x 512 to 1 x 2048,
# batch 2 to 64 (docs/performance.md). Other GPUs borrow them: their ranking stands, their ns are a
# guess.
H200 = GridCosts(
    clock=1.67,
    hop=430,
    gather=55,
    block=1.0,
    sector=200,
    cluster_hop=((1, 0), (2, 750), (4, 1150), (8, 1250), (16, 1350)),
    matrix=8,
    float32=10,
    shared=110,
    warp=(28, 12),
    chunk=45,
    item=40,
    operation=1.2,
    phase=380,
)
_SCHEDULERS = 4
_SECTOR_BYTES = 32


def least_grid_nanoseconds() -> int:
    """What no step of a grid plan undercuts, forward and backward together: a hop each, no work."""
    return round(2 * H200.hop)


def grid_nanoseconds(
    pointwise: Pointwise,
    shape: Shape,
    kernel: GridKernel,
    row_tiles: int,
    phases: int,
    groups: int,
    forward: bool,
) -> float:
    """An estimate of a step of one direction, in ns, where all its blocks run at once.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        kernel: the sizes of the direction.
        row_tiles: tiles of 8 batch rows of a group of blocks.
        phases: parts of those that take turns in a step.
        groups: groups of blocks that are on the chip at once, of all heads.
        forward: the direction.
    """
    tiles = row_tiles // phases
    rows = TILE_ROWS * tiles
    operations = (pointwise.forward if forward else pointwise.backward).operations
    gathered = rows * kernel.exchange_chunks * CHUNK_BYTES / kernel.cluster
    # A fragment of R is four registers of an instruction's warp, wherever it is kept.
    kept = kernel.matrix_registers / 4
    elsewhere = kept * (kernel.chunks / kernel.register_chunks - 1)
    instructions = (kept + elsewhere) * tiles * (H200.float32 if shape.dtype == "float32" else 1)
    matrix = math.ceil(kernel.warps / _SCHEDULERS) * instructions * H200.matrix
    shared = kernel.warps * elsewhere * 512 / H200.shared
    adding = kernel.warps * H200.warp[0 if forward else 1] * (0.6 + 0.4 * tiles)
    items = math.ceil(rows * kernel.units / kernel.threads)
    work = (
        gathered / H200.gather
        + (matrix + shared) / H200.clock
        + adding
        + kernel.chunks * tiles * H200.chunk
        + (items - 1) * H200.item
        + items * operations * H200.operation
    )
    hop = H200.hop + H200.block * kernel.blocks * groups + dict(H200.cluster_hop)[kernel.cluster]
    if kernel.units * shape.element_bytes < _SECTOR_BYTES:
        hop += H200.sector
    # A phase's data is on its way while the others are worked on.
    return max(hop + work, phases * (work + H200.phase)) if phases > 1 else hop + work
