"""The plan of a kernel with one block per head and a few batch rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...shape import counted
from ..kernel_plan import ResidentPlan


@dataclass(frozen=True, kw_only=True)
class BlockPlan(ResidentPlan):
    """One block per head and 4 or 8 batch rows: R in registers, h through shared memory.

    No block waits for another. One binary serves all batches and lengths. The attributes that are
    not listed are those of `ResidentPlan`.

    Attributes:
        unit_groups: groups of 8 units per warp.
        ahead: steps between the load of a step's inputs and their use.
        blocks_per_multiprocessor: blocks that share an SM's registers.
        matrix_registers: registers per thread that hold R.
    """

    kind: ClassVar[str] = "block"

    unit_groups: int
    ahead: int
    blocks_per_multiprocessor: int
    matrix_registers: int

    @property
    def cut(self) -> tuple[int, ...]:
        """How the plan cuts the batch."""
        return (self.rows,)

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
