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
        clock: cycles a ns.
        hop: ns from a block's publishing to another's having read it, beside the bytes.
        gather: bytes a ns that a block takes in from L2.
        cluster_hop: ns of adding sums among the blocks of a cluster.
        matrix: cycles of a scheduler's matrix unit for one m16n8k16 instruction.
        shared: bytes a cycle that a block reads from shared memory.
        item: ns of a further item of a thread, and of each of its operations.
        launch: ns of a further launch, spread over the steps.
    """

    clock: float
    hop: float
    gather: float
    cluster_hop: float
    matrix: float
    shared: float
    item: tuple[float, float]
    launch: float


# NVIDIA H200, CUDA 13.0, 2026-11-21: fitted to 1 x 512 and 768 of LSTM, GRU and Elman. Other GPUs
# borrow them, so that their ranking stands and their ns are a guess.
H200 = GridCosts(
    clock=1.98,
    hop=830,
    gather=40,
    cluster_hop=950,
    matrix=8,
    shared=100,
    item=(25, 1.0),
    launch=10,
)
_SCHEDULERS = 4


def grid_nanoseconds(
    pointwise: Pointwise, shape: Shape, kernel: GridKernel, row_tiles: int, forward: bool
) -> float:
    """An estimate of a step of one direction, in ns, where all its blocks run at once.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        kernel: the sizes of the direction.
        row_tiles: tiles of 8 batch rows of a group of blocks.
        forward: the direction.
    """
    rows = TILE_ROWS * row_tiles
    operations = (pointwise.forward if forward else pointwise.backward).operations
    gathered = rows * kernel.exchange_chunks * CHUNK_BYTES / kernel.cluster
    # A fragment of R is four registers of an instruction's warp; float32 takes three products of
    # half the depth.
    kept = kernel.matrix_registers / 4
    streamed = kept * (kernel.chunks / kernel.register_chunks - 1)
    instructions = kernel.warps * (kept + streamed) * row_tiles
    instructions *= 3 if shape.dtype == "float32" else 1
    matrix = math.ceil(instructions / _SCHEDULERS) * H200.matrix
    shared = kernel.warps * streamed * 512 / H200.shared
    items = math.ceil(rows * kernel.units / kernel.threads)
    each, operation = H200.item
    hop = H200.hop + (H200.cluster_hop if kernel.cluster > 1 else 0) + (0 if forward else 40)
    return (
        hop
        + gathered / H200.gather
        + (matrix + shared) / H200.clock
        + items * (each + operation * operations)
    )
