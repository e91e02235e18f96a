"""The plan of a kernel whose threads run all steps of a few units each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from ....cellspec.cell import CellSpec
from ...shape import ELEMENT_BYTES, Dtype, counted
from ..copies import WORD_BYTES, restart_words, states_needed
from ..kernel_plan import LaunchShape
from ..mma import WARP
from ..unit_plan import UnitPlan


def copied_bytes(elements: int, dtype: Dtype, whole_warps: bool = False) -> int:
    """Bytes of shared memory that a thread needs for neighbouring elements of a step.

    Args:
        elements: how many.
        dtype: of each.
        whole_warps: whether a warp copies them for all its threads; else each thread copies words.
    """
    used = elements * ELEMENT_BYTES[dtype]
    return used if whole_warps else WORD_BYTES * math.ceil(used / WORD_BYTES)


@dataclass(frozen=True, kw_only=True)
class WalkPlan(UnitPlan):
    """A thread runs all steps of a few neighbouring units of a batch row.

    No thread waits for another. The attributes that are not listed are those of `UnitPlan`.

    Attributes:
        units: units per thread, which divide those of a head.
        whole_warps: whether all units of a warp are of one head, so that it copies them together.
        chunk: steps that are taken together.
        stages: chunks whose data is in flight.
        step_bytes: bytes of shared memory per thread and step, without masks.
    """

    kind: ClassVar[str] = "walk"

    units: int
    whole_warps: bool
    chunk: int
    stages: int
    step_bytes: int

    @property
    def threads(self) -> int:
        """Threads per block: the more blocks, the more evenly SMs are filled."""
        return WARP

    @property
    def ahead(self) -> int:
        """Steps between the load of a step's inputs and their use."""
        return self.chunk * self.stages

    @property
    def shared(self) -> int:
        """Bytes of shared memory per block, without those of `reset_shared`."""
        each = self.threads * self.chunk * self.step_bytes
        return self.stages * (each + self.masked * self._restart_bytes)

    @property
    def _restart_bytes(self) -> int:
        """Bytes that say before which steps of a chunk rows restart, as headers lay them out."""
        copies = 1 if self.whole_warps else self.threads
        return 16 * math.ceil(WORD_BYTES * restart_words(self.chunk) * copies / 16)

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        return LaunchShape(self.threads, self.shared + self.reset_shared)

    def reset_bytes(self, cell: CellSpec) -> int:
        """Bytes of shared memory for the values after a reset of all steps in flight."""
        values = copied_bytes(self.units, self.dtype, self.whole_warps)
        return self.threads * self.ahead * states_needed(cell, self) * values

    def batch_tiles(self, batch: int) -> int:
        """The number of parts into which the plan cuts the batch: its rows."""
        return batch

    def blocks(self, batch: int, heads: int, dim: int) -> int:
        """The number of blocks of a launch.

        Args:
            batch: rows of the call.
            heads: of the call.
            dim: units per head.
        """
        return math.ceil(batch * heads * dim // self.units / self.threads)

    def brief(self, backward: Self) -> str:
        """In a few words, what distinguishes a pair of walk plans from other pairs."""
        return (
            f"walk: {self.units} and {counted(backward.units, 'unit')} per thread, loaded"
            f" {self.ahead} and {counted(backward.ahead, 'step')} ahead"
        )

    @property
    def mapping(self) -> str:
        """Which threads compute which units, in words."""
        units = "unit" if self.units == 1 else counted(self.units, "unit")
        return f"one thread per {units} of a batch row, states in registers"

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        return (
            f"{counted(self.chunk, 'step')} together, loaded {self.ahead} steps ahead,"
            f" {self.registers} registers per thread, {self.shared} bytes of shared memory,"
            f" {counted(self.blocks_per_multiprocessor, 'block')} per SM"
        )
