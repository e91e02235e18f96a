"""Plans of blocks all over the chip that share a head and exchange through L2."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...shape import counted
from ..resident_plan import FusedPlanBase

TILE_ROWS = 8  # batch rows of a tile: the N side of the matrix instructions
CHUNK_BYTES = 64  # of K, a row
RING_BYTES = 4096  # of a warp that streams, in shared memory: kRingBytes in lib/kernels/split_k.cuh
CHUNK_REGISTERS = 8  # of a tile of 16 rows of R and a chunk of K, a thread
SLOT_CHUNK_BYTES = TILE_ROWS * CHUNK_BYTES


@dataclass(frozen=True)
class GridKernel:
    """One direction of a `GridPlan`: the sizes that its kernel is compiled with.

    Attributes:
        blocks: that share a head and a group of batch rows.
        cluster: neighbours among them that share K and add their sums through each other's shared
            memory; 1 for none.
        units: of a block.
        warps: of a block; they share K.
        chunks: of K that a warp multiplies.
        register_chunks: of those, how many lie in registers. The others lie in shared memory, but
            for those that are streamed.
        exchange_chunks: of 64 bytes a row that all blocks of a head publish in a step.
        tiles: of 16 rows of R that a warp multiplies.
        registers: registers of a thread that the compiler may use.
        shared: bytes of shared memory of a block.
        streamed_chunks: of those of a warp, how many come from global memory in every step, out of
            the L2 cache where that holds them.
    """

    blocks: int
    cluster: int
    units: int
    warps: int
    chunks: int
    register_chunks: int
    exchange_chunks: int
    tiles: int
    registers: int
    shared: int
    streamed_chunks: int = 0

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps

    @property
    def shared_chunks(self) -> int:
        """Chunks of K of a warp that lie in shared memory."""
        return self.chunks - self.register_chunks - self.streamed_chunks

    @property
    def matrix_registers(self) -> int:
        """Registers of a thread that hold R."""
        return CHUNK_REGISTERS * self.tiles * self.register_chunks

    @cached_property  # it is asked for in every call
    def streamed_bytes(self) -> int:
        """Bytes of R that a block streams in every step."""
        return 4 * self.threads * CHUNK_REGISTERS * self.tiles * self.streamed_chunks

    def __str__(self) -> str:
        clusters = f", clusters of {self.cluster} share K" if self.cluster > 1 else ""
        beyond = f", {self.shared_chunks} in shared memory, {self.streamed_chunks} streamed"
        return (
            f"{counted(self.blocks, 'block')} of {self.units} units{clusters};"
            f" {counted(self.warps, 'warp')} of {counted(self.chunks, 'chunk')} of K,"
            f" {self.register_chunks} in registers{beyond if self.streamed_chunks else ''};"
            f" {self.registers} registers a thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory"
        )


@dataclass(frozen=True, kw_only=True)
class GridPlan(FusedPlanBase[GridKernel]):
    """Blocks all over the chip share a head: R in registers and shared memory, h through L2.

    What they cannot hold of R is streamed: each thread reads its share again in every step.

    All blocks of a launch are on the chip at once, and wait for each other's data. Batch and length
    are run-time.

    Attributes:
        groups: groups of blocks, a head, that fit the chip at once; more batch takes turns.
        phases: parts of a group's rows that take turns in a step: while what one published is on
            its way, the next is multiplied. The others are those of `FusedPlanBase`; rows are a
            multiple of 8.
    """

    groups: int
    phases: int = 1

    @property
    def streams(self) -> bool:
        """Whether a part of R is not on the chip."""
        return any(kernel.streamed_chunks for kernel in self.kernels.values())

    @property
    def mapping(self) -> str:
        """Who computes which rows, in words."""
        in_phases = f", in {self.phases} phases" if self.phases > 1 else ""
        return (
            f"blocks all over the chip share a head and {self.rows} batch rows,"
            f" {counted(self.groups, 'group')} at once{in_phases}"
        )
