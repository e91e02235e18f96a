"""The constants of the cost model: one table, fitted on an H200, and how other GPUs use it.

Each kind of plan has a class of constants here and a formula in its `cost.py`. A constant without
another unit is in ns per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ..shape import Direction
from .limits import Limits


class PerDirection(NamedTuple):
    """A constant of both directions' kernels."""

    forward: float
    backward: float

    def of(self, direction: Direction) -> float:
        """The constant of one direction."""
        return self.forward if direction == "forward" else self.backward


@dataclass(frozen=True)
class ChipConstants:
    """Constants that several kinds of plans share.

    Attributes:
        clock: cycles per ns.
        matrix: cycles of a scheduler's matrix unit per m16n8k16 instruction.
        float32: factor of a product in float32: three instructions of half the depth, and the
            splitting of R at each use.
        memory_bandwidth: bytes per ns from and to device memory.
    """

    clock: float
    matrix: float
    float32: float
    memory_bandwidth: float


@dataclass(frozen=True)
class BlockConstants:
    """Constants of block plans. An item is a unit of a batch row.

    Attributes:
        exchange: time that no other work fills: a barrier, shared memory, the first instructions of
            a chain of dependent ones.
        chain: time that no other work fills, per item of a thread.
        operation: per operation of the cell's equations and item of a thread.
        further_warp: per item of a thread, for each warp on a scheduler after the first.
    """

    exchange: PerDirection
    chain: PerDirection
    operation: PerDirection
    further_warp: PerDirection


@dataclass(frozen=True)
class ClusterConstants:
    """Constants of cluster plans.

    Attributes:
        exchange: time that no other work fills: the latency of a push to the peers, barriers.
        size: additional time by the number of blocks in a cluster.
        received: ns per KiB that a block receives.
        each_warp: per warp on a scheduler.
        operation: per operation of the cell's equations and round of a scheduler's warps.
        split: per additional warp that shares K.
        filled: the part of the SMs that whole clusters can use.
    """

    exchange: PerDirection
    size: Mapping[int, float]
    received: float
    each_warp: PerDirection
    operation: PerDirection
    split: float
    filled: float


@dataclass(frozen=True)
class GridConstants:
    """Constants of grid plans. An item is a unit of a batch row.

    Attributes:
        hop: from a block's publishing of a value to its use in another block, without the bytes.
        gather: ns per KiB that a block reads from L2.
        block: per block on the chip: the more blocks wait for each other, the later the last is.
        sector: where two blocks write the same sector, as those of 8 two-byte units do.
        cluster_hop: adding partial sums among the blocks of a cluster, by the number of blocks.
        matrix: of a scheduler's matrix unit, per m16n8k16 instruction.
        chain: per instruction of a warp, which waits for the accumulator of the one before.
        warp: per warp that shares K, for adding its partial sums.
        cluster_warp: additional time per such warp where the blocks of a cluster share K.
        item: per item of a thread after the first.
        operation: per operation of the cell's equations and item of a thread.
        phase: per phase, in addition to the phase's own work.
        l2_bandwidth: bytes per ns that all blocks stream from L2. Not fitted: 42 for each of 132
            blocks.
        memory_bandwidth: bytes per ns that all blocks stream from device memory. Not fitted.
    """

    hop: PerDirection
    gather: PerDirection
    block: PerDirection
    sector: PerDirection
    cluster_hop: Mapping[int, float]
    matrix: PerDirection
    chain: PerDirection
    warp: PerDirection
    cluster_warp: float
    item: PerDirection
    operation: PerDirection
    phase: PerDirection
    l2_bandwidth: float
    memory_bandwidth: float


@dataclass(frozen=True)
class LibraryConstants:
    """Constants of alternating plans with the matrix library's product.

    Attributes:
        launch: per kernel of a CUDA graph.
        product: a small product.
        l2_bandwidth: bytes per ns at which such a product reads R.
    """

    launch: float
    product: float
    l2_bandwidth: float


@dataclass(frozen=True)
class FusedConstants:
    """Constants of alternating plans with fused steps. Calculated from measurements of the parts.

    Attributes:
        hop: from the end of a step to the first load of the next step.
        overlapped_hop: the same where the next step's blocks start before the end.
        chain: a step without data movement: sums, equations, stores.
        exchange: adding partial sums among the blocks of a cluster.
        block_bandwidth: bytes per ns that one block reads from L2.
        l2_bandwidth: bytes per ns that all blocks read from L2.
    """

    hop: float
    overlapped_hop: float
    chain: float
    exchange: float
    block_bandwidth: float
    l2_bandwidth: float


@dataclass(frozen=True)
class GpuConstants:
    """All constants of the cost model.

    Attributes:
        fitted_on: the GPU whose measurements gave them.
        chip: shared by several kinds of plans.
        block: of block plans.
        cluster: of cluster plans.
        grid: of grid plans.
        library: of alternating plans with the matrix library's product.
        fused: of alternating plans with fused steps.
    """

    fitted_on: str
    chip: ChipConstants
    block: BlockConstants
    cluster: ClusterConstants
    grid: GridConstants
    library: LibraryConstants
    fused: FusedConstants


# NVIDIA H200, CUDA 13.0, 2026-11-21.
H200 = GpuConstants(
    fitted_on="H200",
    chip=ChipConstants(clock=1.98, matrix=8, float32=10, memory_bandwidth=4300),
    # Fitted to LSTM, sLSTM and Elman, 16 to 128 units, batch 16 to 256 (benchmarks/results), within
    # 15 %.
    block=BlockConstants(
        exchange=PerDirection(60, 150),
        chain=PerDirection(46, 72),
        operation=PerDirection(3.8, 3.0),
        further_warp=PerDirection(45, 85),
    ),
    # Fitted to 27 plans of LSTM and sLSTM, head dims 64 to 512, batch 16, within 10 %. The factor
    # `chip.float32` comes from these plans too.
    cluster=ClusterConstants(
        exchange=PerDirection(103, 190),
        size=MappingProxyType({2: 125, 3: 125, 4: 30, 6: 15, 8: 0, 12: 10, 16: 17}),
        received=35,
        each_warp=PerDirection(41, 16),
        operation=PerDirection(6.5, 5.2),
        split=110,
        filled=0.9,
    ),
    # Fitted to 71 forward and 147 backward kernels of LSTM, GRU, sLSTM and Elman, 1 x 512 to
    # 1 x 2048, batch 2 to 64, within 3 and 6 % in the mean (docs/performance.md). None of them
    # streamed.
    grid=GridConstants(
        hop=PerDirection(686, 886),
        gather=PerDirection(16.4, 14.1),
        block=PerDirection(0.56, 0),
        sector=PerDirection(122, 91),
        cluster_hop=MappingProxyType({1: 0, 2: 163, 4: 334, 8: 407, 16: 410}),
        matrix=PerDirection(2.4, 5.55),
        chain=PerDirection(6.7, 9.45),
        warp=PerDirection(14.2, 5.1),
        cluster_warp=20.4,
        item=PerDirection(100, 320),
        operation=PerDirection(3.35, 2.3),
        phase=PerDirection(320, 870),
        l2_bandwidth=5500,
        memory_bandwidth=4300,
    ),
    library=LibraryConstants(launch=1500, product=2800, l2_bandwidth=3000),
    fused=FusedConstants(
        hop=1500,
        overlapped_hop=700,
        chain=700,
        exchange=300,
        block_bandwidth=40,
        l2_bandwidth=5000,
    ),
)
FITTED = {constants.fitted_on: constants for constants in (H200,)}


def constants_for(limits: Limits) -> GpuConstants:
    """The constants for a GPU: those that were fitted on it, or else the H200's.

    The formulas scale with what `Limits` knows: SMs, their registers and shared memory, the L2
    cache and clusters. Clocks and bandwidths of another GPU are taken to be the H200's, so its
    estimates rank plans but do not forecast times.

    Args:
        limits: the GPU.

    Example:
        >>> from rnnc.codegen.cuda.constants import constants_for
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> constants_for(limits_of("A100")).fitted_on
        'H200'
    """
    return FITTED.get(_name(limits), H200)


def is_fitted(limits: Limits) -> bool:
    """Whether the constants for a GPU were fitted on it.

    Args:
        limits: the GPU.
    """
    return _name(limits) in FITTED


def _name(limits: Limits) -> str:
    """The GPU's name, without the vendor that drivers put before it."""
    return limits.name.removeprefix("NVIDIA ")
