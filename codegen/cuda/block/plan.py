"""Plans of one block a head and a few batch rows."""

from __future__ import annotations

from dataclasses import dataclass

from ...shape import counted
from ..resident_plan import FusedPlanBase


@dataclass(frozen=True)
class BlockKernel:
    """One direction of a `BlockPlan`: the sizes that its kernel is compiled with.

    Attributes:
        warps: warps of a block.
        ahead: steps that data is sent for before its use.
        blocks_per_multiprocessor: how many blocks share an SM's registers.
        matrix_registers: registers of a thread that hold R.
        registers: registers of a thread that the compiler may use.
        shared: bytes of shared memory of a block.
    """

    warps: int
    ahead: int
    blocks_per_multiprocessor: int
    matrix_registers: int
    registers: int
    shared: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps

    def __str__(self) -> str:
        return (
            f"{counted(self.warps, 'warp')}, {self.registers} registers a thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory,"
            f" data sent for {self.ahead} steps ahead,"
            f" {counted(self.blocks_per_multiprocessor, 'block')} an SM"
        )


@dataclass(frozen=True, kw_only=True)
class BlockPlan(FusedPlanBase[BlockKernel]):
    """One block a head and 4 or 8 batch rows: R in registers, h through shared memory.

    No block waits for another. Batch and length are run-time: one binary serves all.

    Attributes:
        unit_groups: groups of 8 units that a warp of the forward owns; the others are those of
            `FusedPlanBase`.
    """

    unit_groups: int

    @property
    def mapping(self) -> str:
        """Who computes which rows, in words."""
        return f"one block a head and {self.rows} batch rows, R in registers"
