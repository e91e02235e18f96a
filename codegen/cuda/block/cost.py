"""The cost of a step of a block plan in ns: the model, and where its constants were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...derive import Pointwise
from ...shape import DIRECTIONS, Shape
from ..limits import Limits
from .plan import BlockPlan


@dataclass(frozen=True)
class Costs:
    """Constants of an architecture.

    Attributes:
        clock: cycles a ns.
        schedulers: of a multiprocessor; each issues an instruction of one of its warps a cycle.
        matrix: cycles of a scheduler's matrix unit for one m16n8k16 instruction.
        float32: how many times as long float32 takes: three instructions of half the depth, and the
            splitting of R at each use, measured in clusters.
        exchange: ns of a step, forward and backward, that no other work fills: barrier, shared
            memory, the first instructions of a chain.
        chain: the same for each (unit, batch row) of a thread, which come one after the other.
        operation: ns of an operation of the equations for each of those.
        item: ns of each (unit, batch row) of a thread for each further warp of its scheduler.
        bandwidth: bytes a ns from and to device memory.
        launch: ns of a kernel in a graph.
        product: ns of a small product by the matrix library.
        library_bandwidth: bytes a ns at which such a product reads R from L2.
    """

    clock: float
    schedulers: int
    matrix: float
    float32: float
    exchange: tuple[float, float]
    chain: tuple[float, float]
    operation: tuple[float, float]
    item: tuple[float, float]
    bandwidth: float
    launch: float
    product: float
    library_bandwidth: float


# NVIDIA H200, CUDA 13.0, 2026-11-21: those of blocks fitted to LSTM, sLSTM and Elman, 16 to 128
# units, batch 16 to 256, in benchmarks/results, within 15 %. Other GPUs borrow them, so that their
# ranking stands and their ns are a guess.
H200 = Costs(
    clock=1.98,
    schedulers=4,
    matrix=8,
    float32=10,
    exchange=(60, 150),
    chain=(46, 72),
    operation=(3.8, 3.0),
    item=(45, 85),
    bandwidth=4300,
    launch=1500,
    product=2800,
    library_bandwidth=3000,
)


def block_nanoseconds(pointwise: Pointwise, shape: Shape, limits: Limits, kernel: BlockPlan) -> int:
    """The estimated time per step of a block plan's kernel, in ns.

    Args:
        pointwise: of the cell.
        shape: batch and heads say how many blocks there are.
        limits: the GPU.
        kernel: the plan, whose own estimate is not read.
    """
    direction = DIRECTIONS.index(kernel.direction)
    operations = pointwise.program(kernel.direction).operations
    blocks = shape.heads * math.ceil(shape.batch / kernel.rows)
    together = min(math.ceil(blocks / limits.multiprocessors), kernel.blocks_per_multiprocessor)
    waves = math.ceil(blocks / (limits.multiprocessors * together))
    # Blocks that share a multiprocessor hide each other's latency, not each other's work.
    busy = math.ceil(together * kernel.warps / H200.schedulers)
    # A fragment of R is four registers of an instruction's warp.
    matrix = busy * kernel.matrix_registers / 4 * H200.matrix / H200.clock
    matrix *= H200.float32 if shape.dtype == "float32" else 1
    items = kernel.unit_groups * kernel.rows // 4
    item = H200.chain[direction] + operations * H200.operation[direction]
    further = (busy - 1) * H200.item[direction]
    found = waves * (H200.exchange[direction] + items * (item + further) + matrix)
    return round(max(found, traffic_nanoseconds(pointwise, shape)))


def traffic_nanoseconds(pointwise: Pointwise, shape: Shape) -> float:
    """The ns of a step's reads and writes, which are the same for every plan.

    Args:
        pointwise: of the cell.
        shape: all of it matters.
    """
    elements = shape.batch * shape.heads * shape.head_dim * shape.element_bytes
    values = len(pointwise.cell.gates) + len(pointwise.cell.states) + len(pointwise.saved)
    return elements * values / H200.bandwidth
