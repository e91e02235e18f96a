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
        float32: factor of a product in float32: three instructions of half the depth, and the
            splitting of R at each use. A product whose factors round to tf32 takes as long as one
            of two-byte elements, but for its longer latency.
        memory_bandwidth: bytes per ns from and to device memory.
    """

    float32: float
    memory_bandwidth: float


@dataclass(frozen=True)
class BlockConstants:
    """Constants of block plans. An item is a unit of a batch row.

    Attributes:
        exchange: time that no other work fills: a barrier, shared memory, the first instructions of
            a chain of dependent ones.
        warp: per warp of the block, for which the barrier waits.
        matrix: of a scheduler's matrix unit, per fragment of R.
        chain: time that no other work fills, per item of a thread.
        operation: per operation of the cell's equations and item of a thread.
        exact: factor of an operation in float32, whose functions are exact.
        gate: per item of a thread and gate without input, whose gradient has a tensor of its own.
        further_warp: per item of a thread, for each warp on a scheduler after the first.
        start: from the launch to the first step, without the reads of R.
        load: ns per KiB of R that an SM reads into its registers.
    """

    exchange: PerDirection
    warp: PerDirection
    matrix: PerDirection
    chain: PerDirection
    operation: PerDirection
    exact: PerDirection
    gate: PerDirection
    further_warp: PerDirection
    start: PerDirection
    load: PerDirection


@dataclass(frozen=True)
class ClusterConstants:
    """Constants of cluster plans.

    Attributes:
        exchange: time that no other work fills: the latency of a push to the peers, barriers.
        size: additional time by the number of blocks in a cluster.
        received: ns per KiB that a block receives.
        matrix: of a scheduler's matrix unit, per fragment of R.
        chain: per fragment of R of a warp, which waits for the accumulator of the one before.
        chain_float32: the same in float32.
        each_warp: per warp on a scheduler.
        operation: per operation of the cell's equations and round of a scheduler's warps.
        exact: factor of an operation in float32, whose functions are exact.
        gate: per round and gate without input, whose gradient has a tensor of its own.
        split: per additional warp that shares K.
        start: from the launch to the first step, without the reads of R.
        load: ns per KiB of R that an SM reads into its registers.
    """

    exchange: PerDirection
    size: Mapping[int, PerDirection]
    received: PerDirection
    matrix: PerDirection
    chain: PerDirection
    chain_float32: PerDirection
    each_warp: PerDirection
    operation: PerDirection
    exact: PerDirection
    gate: PerDirection
    split: PerDirection
    start: PerDirection
    load: PerDirection


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
        chain_float32: the same in float32, in addition.
        warp: per warp that shares K, for adding its partial sums.
        cluster_warp: additional time per such warp where the blocks of a cluster share K.
        item: per item of a thread after the first.
        operation: per operation of the cell's equations and item of a thread.
        phase: per phase, in addition to the phase's own work.
        start: from the launch to the first step, without the reads of R.
        load: ns per KiB of R that a block reads into its registers and shared memory.
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
    chain_float32: PerDirection
    warp: PerDirection
    cluster_warp: float
    item: PerDirection
    operation: PerDirection
    phase: PerDirection
    start: PerDirection
    load: PerDirection
    l2_bandwidth: float
    memory_bandwidth: float


@dataclass(frozen=True)
class LibraryConstants:
    """Constants of alternating plans with the matrix library's product.

    Attributes:
        start: from the call to the first step.
        launch: per kernel of a CUDA graph.
        product: a small product.
        l2_bandwidth: bytes per ns at which such a product reads R.
    """

    start: PerDirection
    launch: float
    product: float
    l2_bandwidth: float


@dataclass(frozen=True)
class FusedConstants:
    """Constants of alternating plans with fused steps. Calculated from measurements of the parts.

    Attributes:
        start: from the call to the first step.
        hop: from the end of a step to the first load of the next step.
        overlapped_hop: the same where the next step's blocks start before the end.
        chain: a step without data movement: sums, equations, stores.
        exchange: adding partial sums among the blocks of a cluster.
        block_bandwidth: bytes per ns that one block reads from L2.
        l2_bandwidth: bytes per ns that all blocks read from L2.
    """

    start: PerDirection
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


# NVIDIA H200, CUDA 13.0, 2026-11-22: fitted to 994 kernels of `rnnc bench --users --plans`, LSTM,
# GRU and Elman, 32 to 1024 units, batch 1 to 512, 1 to 256 steps, and to the 16 rows of
# `rnnc bench`. The median error is 5 to 9 % (docs/notebook.md).
H200 = GpuConstants(
    fitted_on="H200",
    chip=ChipConstants(float32=10, memory_bandwidth=4300),
    block=BlockConstants(
        exchange=PerDirection(109, 238),
        warp=PerDirection(5.5, 3.8),
        matrix=PerDirection(2.9, 2.9),
        chain=PerDirection(18, 23),
        operation=PerDirection(4.6, 3.65),
        exact=PerDirection(5.3, 1.5),
        gate=PerDirection(0, 77),
        further_warp=PerDirection(43, 63),
        start=PerDirection(2370, 2400),
        load=PerDirection(19.5, 85),
    ),
    cluster=ClusterConstants(
        exchange=PerDirection(100, 166),
        size=MappingProxyType(
            {
                2: PerDirection(111, 86),
                3: PerDirection(49, 66),
                4: PerDirection(58, 33),
                6: PerDirection(25, 15),
                8: PerDirection(0, 0),
                12: PerDirection(11, 9),
                16: PerDirection(24, 15),
            }
        ),
        received=PerDirection(48.9, 34.2),
        matrix=PerDirection(3.2, 4.5),
        chain=PerDirection(0.4, 0.7),
        chain_float32=PerDirection(1.85, 1.55),
        each_warp=PerDirection(12.6, 21.3),
        operation=PerDirection(6.3, 5.3),
        exact=PerDirection(2.7, 1),
        gate=PerDirection(0, 135),
        split=PerDirection(138, 0),
        start=PerDirection(3050, 5400),
        load=PerDirection(13.5, 17.8),
    ),
    # The step was fitted to 71 forward and 147 backward kernels of LSTM, GRU, sLSTM and Elman,
    # 1 x 512 to 1 x 2048, batch 2 to 64, within 3 and 6 % in the mean (2026-11-21). None streamed.
    grid=GridConstants(
        hop=PerDirection(686, 886),
        gather=PerDirection(16.4, 14.1),
        block=PerDirection(0.56, 0),
        sector=PerDirection(122, 91),
        cluster_hop=MappingProxyType({1: 0, 2: 163, 4: 334, 8: 407, 16: 410}),
        matrix=PerDirection(2.4, 5.55),
        chain=PerDirection(6.7, 9.45),
        chain_float32=PerDirection(4.9, 0),
        warp=PerDirection(14.2, 5.1),
        cluster_warp=20.4,
        item=PerDirection(100, 320),
        operation=PerDirection(3.35, 2.3),
        phase=PerDirection(320, 870),
        start=PerDirection(2850, 470),
        load=PerDirection(55, 90),
        l2_bandwidth=5500,
        memory_bandwidth=4300,
    ),
    library=LibraryConstants(
        start=PerDirection(11000, 15000), launch=1500, product=2800, l2_bandwidth=3000
    ),
    fused=FusedConstants(
        start=PerDirection(14000, 17000),
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
