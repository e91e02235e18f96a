"""The constants of the cost model: a class for each kind of plan; its formula is in its `cost.py`.

A constant without another unit is in ns per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...shape import Direction


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
        called: how much longer an exchange within a step takes, of what called gates multiply.
        statistics: the same of parts of statistics alone.
        part: of each exchange within a step, for each block, whose part all blocks read.
        store: of a cell with stages, each further store of what a unit saves, for each warp of a
            block but two, whose stores are done before an exchange ends.
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
    called: PerDirection
    statistics: PerDirection
    part: PerDirection
    store: float
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
        chain_tf32: the same in TF32, in addition.
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
    chain_tf32: PerDirection
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
class WalkConstants:
    """Constants of walk plans. An item is a unit of a batch row.

    Attributes:
        chain: at least, where the states wait for no function of the states before the step.
        function: at least, where they wait for such a function.
        exact_function: the factor of `function` in float32 and float64.
        warp: a step of a warp, without its items.
        item: per item of a thread.
        operation: per operation of the cell's equations and item.
        exact: the factor of `operation` in float32 and float64.
        shared: how many times as long a step takes for each warp of an SM, the first one left out,
            but at least once as long.
        bandwidth: the part of the memory bandwidth that a walk reaches.
        start: from the launch to the first step.
    """

    chain: float
    function: float
    exact_function: float
    warp: float
    item: float
    operation: PerDirection
    exact: PerDirection
    shared: PerDirection
    bandwidth: float
    start: PerDirection


@dataclass(frozen=True)
class ScanConstants:
    """Constants of scan plans, per channel of an SM: a unit of a batch row.

    Attributes:
        value: per number that a step reads or writes.
        entry: per entry of the matrix of what is carried, after the first.
        sum: per sum over time of a backward.
        exact: the factor of these in float32 and float64. Not fitted.
        hop: from tile to tile.
        value_in_order: as `value`, of blocks that take all tiles of their channels.
        parts: the factor of `value_in_order` where the lanes of a warp are in parts.
        turn: from warp to warp of such a block.
        link: from step to step of a warp, per carried value.
        bandwidth: the part of the memory bandwidth that a scan reaches.
        start: from the launch to the first step, of blocks that wait for others.
        start_in_order: the same of others.
    """

    value: PerDirection
    entry: PerDirection
    sum: float
    exact: float
    hop: float
    value_in_order: PerDirection
    parts: PerDirection
    turn: float
    link: PerDirection
    bandwidth: float
    start: PerDirection
    start_in_order: float


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
        walk: of walk plans.
        scan: of scan plans.
    """

    fitted_on: str
    chip: ChipConstants
    block: BlockConstants
    cluster: ClusterConstants
    grid: GridConstants
    library: LibraryConstants
    fused: FusedConstants
    walk: WalkConstants
    scan: ScanConstants
