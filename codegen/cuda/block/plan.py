"""The plan of a kernel with one block per head and a few batch rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from ....cellspec.cell import CellSpec
from ...shape import ELEMENT_BYTES, Dtype, counted
from ..copies import row_pitch, states_needed
from ..stage_bytes import number_bytes, part_bytes
from ..stage_tables import StageTables
from ..tiled_plan import TiledPlan

_FEW_STORES = 3  # of a unit's results, which threads store themselves


def store_bytes(tables: StageTables, rows: int, dim: int, dtype: Dtype) -> int:
    """Bytes of shared memory for results of a step that take many stores per unit.

    Args:
        tables: the stages of a direction.
        rows: batch rows per block.
        dim: units per head.
        dtype: of the results.
    """
    layout, size = tables.layout, ELEMENT_BYTES[dtype]
    counts = [len(layout.input_gates), len(layout.gradients) - len(layout.input_gates)]
    if tables.direction == "forward":
        counts = [tables.saved]
    if not tables.meetings:
        return 0
    many = [count for count in counts if count * size > _FEW_STORES * _access_bytes(count * size)]
    return sum(rows * row_pitch(count, dim, dtype) for count in many)


def _access_bytes(size: int) -> int:
    """Bytes of the widest store that divides a size."""
    return next(access for access in (16, 8, 4, 2) if size % access == 0)


@dataclass(frozen=True, kw_only=True)
class BlockPlan(TiledPlan):
    """One block per head and 4 or 8 batch rows: R in registers, h through shared memory.

    No block waits for another. One binary serves all batches and lengths. The attributes that are
    not listed are those of `TiledPlan`.

    Attributes:
        unit_groups: groups of 8 units per warp.
    """

    kind: ClassVar[str] = "block"
    looks_ahead = "unmasked"
    most_heads: ClassVar[int] = 2**31 - 1  # per launch: heads are blocks along x

    unit_groups: int

    @property
    def cut(self) -> tuple[int, ...]:
        """Sizes in which the plan cuts the batch."""
        return (self.rows,)

    def reset_bytes(self, cell: CellSpec) -> int:
        """Bytes of shared memory for the values after a reset of all steps in flight."""
        rows = self.rows * row_pitch(1, self.head_dim, self.dtype)
        return self.ahead * states_needed(cell, self) * rows

    def staged_bytes(self, tables: StageTables) -> int:
        """Bytes of shared memory that a cell without stages does not need."""
        parts = self.warps * part_bytes(tables, self.rows)
        numbers = self.ahead * number_bytes(tables, self.rows)
        return parts + numbers + store_bytes(tables, self.rows, self.head_dim, self.dtype)

    def grid(self, heads: int, tiles: int) -> tuple[int, int, int]:
        """The blocks of a launch, in x, y and z."""
        return heads, tiles, 1

    def brief(self, backward: Self) -> str:
        """In a few words, what distinguishes a pair of block plans from other pairs."""
        return f"block: {self.rows} rows; {self.warps} and {backward.warps} warps"

    @property
    def mapping(self) -> str:
        """Which blocks compute which rows, in words."""
        return f"one block per head and {self.rows} batch rows, R in registers"

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        return (
            f"{counted(self.warps, 'warp')}, {self.registers} registers per thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory,"
            f" inputs loaded {self.ahead} steps ahead,"
            f" {counted(self.blocks_per_multiprocessor, 'block')} per SM"
        )
