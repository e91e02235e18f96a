"""What a step costs in ns: the model that ranks plans, and where its constants were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...derive import Pointwise
from ...shape import Shape
from ..limits import Limits
from .plan import BlockKernel


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


def block_nanoseconds(
    pointwise: Pointwise,
    shape: Shape,
    limits: Limits,
    kernels: tuple[BlockKernel, BlockKernel],
    groups: int,
    rows: int,
) -> tuple[int, int]:
    """Estimates of a step of a block plan, forward and backward, in ns.

    Args:
        pointwise: of the cell.
        shape: batch and heads say how many blocks there are.
        limits: the GPU.
        kernels: the sizes of both directions.
        groups: groups of 8 units, a warp of the forward.
        rows: batch rows of a block.
    """
    blocks = shape.heads * math.ceil(shape.batch / rows)
    directions = (
        (kernels[0], groups, pointwise.forward.operations),
        (kernels[1], 2, pointwise.backward.operations),
    )
    found = []
    for direction, (kernel, warp_groups, operations) in enumerate(directions):
        together = min(math.ceil(blocks / limits.multiprocessors), kernel.blocks_per_multiprocessor)
        waves = math.ceil(blocks / (limits.multiprocessors * together))
        # Blocks that share a multiprocessor hide each other's waiting, not each other's work.
        busy = math.ceil(together * kernel.warps / H200.schedulers)
        # A fragment of R is four registers of an instruction's warp.
        matrix = busy * kernel.matrix_registers / 4 * H200.matrix / H200.clock
        matrix *= H200.float32 if shape.dtype == "float32" else 1
        each = warp_groups * rows // 4
        item = H200.chain[direction] + operations * H200.operation[direction]
        further = (busy - 1) * H200.item[direction]
        found.append(waves * (H200.exchange[direction] + each * (item + further) + matrix))
    traffic = traffic_nanoseconds(pointwise, shape)
    return round(max(found[0], traffic)), round(max(found[1], traffic))


def traffic_nanoseconds(pointwise: Pointwise, shape: Shape) -> float:
    """The ns of what a step reads and writes, whatever the plan does.

    Args:
        pointwise: of the cell.
        shape: all of it matters.
    """
    elements = shape.batch * shape.heads * shape.head_dim * shape.element_bytes
    values = len(pointwise.cell.gates) + len(pointwise.cell.states) + len(pointwise.saved)
    return elements * values / H200.bandwidth
