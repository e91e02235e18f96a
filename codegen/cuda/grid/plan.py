"""The plan of a kernel whose blocks on the whole GPU share a head and exchange through L2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ....cellspec.cell import CellSpec
from ...shape import counted
from ..kernel_plan import BufferBytes, LaunchShape, ResidentPlan
from ..mma import K_TILE_BYTES, K_TILE_REGISTERS, TILE_N

RING_BYTES = 4096  # per warp that streams, in shared memory: kRingBytes in lib/kernels/split_k.cuh


@dataclass(frozen=True, kw_only=True)
class GridPlan(ResidentPlan):
    """Blocks on the whole GPU share a head: R in registers and shared memory, h through L2.

    The part of R that does not fit is streamed: each thread reads its share again in every step.
    All blocks of a launch are on the chip at once, and wait for each other's data. One binary
    serves all batches and lengths. `rows` is a multiple of 8; the attributes that are not listed
    are those of `ResidentPlan`.

    Attributes:
        groups: groups of blocks per head that fit the chip at once; more batch rows run in further
            launches. It is no part of the source.
        phases: parts of a group's rows that alternate within a step: while the data that one part
            published is on its way, the next part is multiplied.
        blocks: blocks that share a head and a group of batch rows.
        cluster: blocks per cluster, which share K and add partial sums through each other's shared
            memory; 1 for no clusters.
        units: units per block.
        k_tiles: k-tiles per warp; the warps of a block share K.
        register_k_tiles: how many of those are in registers. The others are in shared memory,
            except those that are streamed.
        exchange_k_tiles: k-tiles of 64 bytes per row that all blocks of a head publish per step.
        tiles: tiles of 16 rows of R per warp.
        streamed_k_tiles: how many of a warp's k-tiles come from global memory in every step,
            through the L2 cache if they fit there.
    """

    kind: ClassVar[str] = "grid"
    # An exchange through L2 takes longer than more sums in another one: in 1 x 768 the backward of
    # an LSTM with a joint norm took 3.10 us per step so, and 3.61 otherwise (H100). In a block or a
    # cluster it took longer so: 0.83 and 1.61 us, and 0.82 and 1.51.
    early_sums: ClassVar[bool] = True

    groups: int
    phases: int = 1
    blocks: int
    cluster: int
    units: int
    k_tiles: int
    register_k_tiles: int
    exchange_k_tiles: int
    tiles: int
    streamed_k_tiles: int = 0

    def reset_bytes(self, cell: CellSpec) -> int:
        """None in shared memory: a thread loads the values of its items into registers."""
        return 0

    def as_compiled(self) -> Self:
        """The plan without fields that the source does not depend on."""
        return replace(super().as_compiled(), groups=1)

    @property
    def cut(self) -> tuple[int, ...]:
        """Sizes in which the plan cuts the batch."""
        return self.rows, self.phases, self.groups

    @property
    def streams(self) -> bool:
        """True if a part of R is not on the chip."""
        return self.streamed_k_tiles > 0

    @property
    def shared_k_tiles(self) -> int:
        """K-tiles per warp that are in shared memory."""
        return self.k_tiles - self.register_k_tiles - self.streamed_k_tiles

    @property
    def matrix_registers(self) -> int:
        """Registers per thread that hold R."""
        return K_TILE_REGISTERS * self.tiles * self.register_k_tiles

    @property
    def streamed_bytes(self) -> int:
        """Bytes of R that a block streams in every step."""
        return 4 * self.threads * K_TILE_REGISTERS * self.tiles * self.streamed_k_tiles

    def groups_at_once(self, batch: int) -> int:
        """The groups of blocks per head in one launch.

        Args:
            batch: rows of the call.
        """
        return min(self.groups, self.batch_tiles(batch))

    def parts_of_sums(self, batch: int, steps: int) -> int:
        """Return the partial sums that a backward writes: one for the batch row of each thread.

        Args:
            batch: rows of the call.
            steps: of the call.
        """
        return batch

    def waiting_blocks(self, batch: int, heads: int) -> int:
        """Return how many blocks of a launch wait for each other: all of them.

        Args:
            batch: rows of the call.
            heads: of the call.
        """
        return self.blocks * self.groups_at_once(batch) * heads

    def buffer_bytes(self, batch: int, heads: int) -> BufferBytes:
        """The sizes of two buffers: one through which blocks exchange data, one for streamed R.

        The layout of the first is [step, head, tile of 8 rows, k-tile, 512 bytes]. Each step has a
        region of its own, so nothing is overwritten while a launch runs. The launches of a batch
        share it. The second holds the part of R that does not fit on the chip. Before their first
        step, a block's threads write their own share of it, packed.

        Args:
            batch: rows of the call.
            heads: of the call.
        """
        groups = heads * self.groups_at_once(batch)
        tiles = groups * (self.rows // TILE_N)
        region = tiles * self.exchange_k_tiles * TILE_N * K_TILE_BYTES
        return BufferBytes(region, groups * self.blocks * self.streamed_bytes)

    def brief(self, backward: Self) -> str:
        """In a few words, what distinguishes a pair of grid plans from other pairs."""
        return (
            f"grid: {self.rows} rows; {self.groups} x {self.blocks} and"
            f" {backward.blocks} blocks, {self.warps} and {backward.warps} warps,"
            f" clusters of {backward.cluster}"
        )

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        return LaunchShape(self.threads, self.shared, self.cluster, "all")

    @property
    def mapping(self) -> str:
        """Which blocks compute which rows, in words."""
        in_phases = f", in {self.phases} phases" if self.phases > 1 else ""
        return (
            f"blocks on the whole GPU share a head and {self.rows} batch rows,"
            f" {counted(self.groups, 'group')} at once{in_phases}"
        )

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        clusters = f", clusters of {self.cluster} share K" if self.cluster > 1 else ""
        beyond = f", {self.shared_k_tiles} in shared memory, {self.streamed_k_tiles} streamed"
        return (
            f"{counted(self.blocks, 'block')} of {self.units} units{clusters};"
            f" {counted(self.warps, 'warp')} of {counted(self.k_tiles, 'k-tile')},"
            f" {self.register_k_tiles} in registers{beyond if self.streamed_k_tiles else ''};"
            f" {self.registers} registers per thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory"
        )
