"""The plan of a kernel with one cluster of blocks per head and 8 batch rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from ....cellspec.cell import CellSpec
from ...derive import Pointwise
from ...shape import counted
from ..copies import states_needed, warp_pitch
from ..kernel_plan import LaunchShape
from ..mma import GROUP_UNITS, ITEM_UNITS, TILE_N
from ..stage_bytes import number_bytes
from ..stage_tables import StageTables
from ..tiled_plan import TiledPlan
from . import staged

# Operations of a backward map up to which it is applied twice. us per step, H100, 2026-11-27, one
# head of 256, bfloat16, batch 16, T 1024, twice / once: a chain of 514 operations 1.40 / 1.63, a
# loop of 1,800 4.74 / 2.83, hodgkin_huxley (2,733) 10.6 / 7.5. Between 514 and 1,800 nothing was
# measured. At batch 2,048 and T 16, once takes less from 130 operations on.
_MOST_TWICE = 1000


@dataclass(frozen=True, kw_only=True)
class ClusterPlan(TiledPlan):
    """One cluster of blocks per head and 8 batch rows: R in registers, h pushed to the peers.

    Clusters do not wait for each other. One binary serves all batches and lengths. The attributes
    that are not listed are those of `TiledPlan`.

    Attributes:
        cluster: blocks per cluster.
        units: units per block.
        splits: warps that share K of the same rows of R and add their partial sums in shared
            memory; 1 in the backward, where warps share rows.
    """

    kind: ClassVar[str] = "cluster"
    looks_ahead = "always"

    cluster: int
    units: int
    splits: int

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        return super().launch_shape._replace(cluster=self.cluster, waits_for="cluster")

    def reset_bytes(self, cell: CellSpec) -> int:
        """Bytes of shared memory for the values after a reset of all steps in flight."""
        units = GROUP_UNITS if self.direction == "forward" else ITEM_UNITS
        rows = self.units // units * TILE_N * warp_pitch(1, units, self.dtype)
        return self.ahead * states_needed(cell, self) * rows

    def adds_sums_late(self, pointwise: Pointwise) -> bool:
        """Return True if the backward applies its map while the peers' sums are on their way.

        It then applies the map once more, to what a sum of 1 adds. A long map, such as one with
        many passes of a loop, takes longer than the wait.

        Args:
            pointwise: of the cell.
        """
        return pointwise.linear and pointwise.backward.operations <= _MOST_TWICE

    def staged_bytes(self, tables: StageTables) -> int:
        """Bytes of shared memory that a cell without stages does not need."""
        forward = self.direction == "forward"
        groups = self.units // (GROUP_UNITS if forward else ITEM_UNITS)
        parts = self.cluster + min(groups, self.warps)
        found = staged.barrier_bytes(tables) + parts * staged.part_bytes(tables)
        if not forward:
            return found + self.ahead * self.warps * number_bytes(tables, TILE_N)
        shared = 0 if groups % 2 else groups // 2
        return found + shared * staged.shared_tile_bytes(tables, self.splits)

    def grid(self, heads: int, tiles: int) -> tuple[int, int, int]:
        """The blocks of a launch, in x, y and z."""
        return self.cluster, heads, tiles

    def brief(self, backward: Self) -> str:
        """In a few words, what distinguishes a pair of cluster plans from other pairs."""
        return (
            f"cluster: {self.rows} rows; {self.cluster} and {backward.cluster} blocks,"
            f" {self.warps} and {backward.warps} warps"
        )

    @property
    def mapping(self) -> str:
        """Which blocks compute which rows, in words."""
        return f"one cluster of blocks per head and {self.rows} batch rows"

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        return (
            f"{counted(self.cluster, 'block')} of {self.units} units;"
            f" {counted(self.warps, 'warp')}, {self.registers} registers per thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory"
        )
