"""The plan of a kernel whose blocks compute tiles of steps, each from what the last one leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ...derive import Pointwise
from ...layout import layout_of
from ...shape import ELEMENT_BYTES, Dtype, counted
from ..copies import WORD_BYTES, restart_words
from ..kernel_plan import BufferBytes, KernelPlan, LaunchShape
from ..limits import Limits
from ..mma import WARP
from ..unit_plan import UnitPlan
from .form import form_of
from .functions import step_functions

_COUNTER_BYTES = 4  # of an exponent in shared memory
_PIECE_BYTES = 16  # of a copy
_GROUP = 4  # warps whose maps one of them joins
_AHEAD_BYTES = 8192  # of maps of tiles before, at most


def real_bytes(dtype: Dtype) -> int:
    """Bytes of a number in registers."""
    return max(4, ELEMENT_BYTES[dtype])


def factor_bytes(dtype: Dtype) -> int:
    """Bytes of an entry of a map of steps, which has more digits than float32."""
    return 8 if ELEMENT_BYTES[dtype] > 2 else 4


def map_words(linear: int, maxima: int, dtype: Dtype) -> tuple[int, int]:
    """The words per channel of the maps that a tile publishes of its steps.

    Args:
        linear: carried values that a matrix multiplies.
        maxima: those that become maxima.
        dtype: of the elements.

    Returns:
        Those of the matrix and of the maxima.
    """
    factor = factor_bytes(dtype) // real_bytes(dtype)
    return linear * (2 + factor * linear), maxima * (1 + factor)


@dataclass(frozen=True, kw_only=True)
class ScanPlan(UnitPlan):
    """Blocks compute tiles of steps of 32 channels; a channel is a unit of a batch row.

    A tile's steps are first taken from zeros, which gives what they make of any values carried into
    them. Then they are taken from those values, as the tiles before it published them. All blocks
    of a launch are on the chip at once. The attributes that are not listed are those of `UnitPlan`.

    Attributes:
        warps: warps per block, each with a chunk of the tile's steps.
        chunk: steps per thread.
        sequential: whether a block takes all tiles of its channels, one after the other. Then
            warps hand on what is carried, and no other block waits for it.
        parts: of a warp's lanes, each with other steps of the same channels.
        whole_warps: whether all units of a warp are of one head, so that it copies its steps ahead.
        copied: elements of a unit and step that it copies, besides states.
        states_copied: states whose values it copies.
        carried: values that are carried from step to step.
        maxima: of them, states that become maxima.
        sums: sums over time of each unit, of a backward.
        states: of the cell.
    """

    kind: ClassVar[str] = "scan"

    warps: int
    chunk: int
    sequential: bool
    parts: int
    whole_warps: bool
    copied: int
    states_copied: int
    carried: int
    maxima: int
    sums: int
    states: int

    @property
    def threads(self) -> int:
        """Threads per block."""
        return WARP * self.warps

    @property
    def tile_steps(self) -> int:
        """Steps of a tile."""
        return self.warps * self.parts * self.chunk

    @property
    def channels(self) -> int:
        """Channels of a tile: units of batch rows."""
        return WARP // self.parts

    def tiles(self, steps: int) -> int:
        """The tiles that the steps of a channel are cut into, at least one.

        Args:
            steps: of the call.
        """
        return max(1, math.ceil(steps / self.tile_steps))

    def groups(self, batch: int, heads: int, dim: int) -> int:
        """The groups of channels, each with tiles of its own.

        Args:
            batch: rows of the call.
            heads: of the call.
            dim: units per head.
        """
        return math.ceil(batch * heads * dim / self.channels)

    @property
    def linear(self) -> int:
        """Carried values that a matrix multiplies."""
        return self.carried - self.maxima

    @property
    def exchanges(self) -> int:
        """Waits of a tile for the one before it: for maxima, then for other values."""
        return (self.maxima > 0) + (self.linear > 0)

    @property
    def tile_record_bytes(self) -> int:
        """Bytes that a tile publishes."""
        words = self.carried + sum(map_words(self.linear, self.maxima, self.dtype))
        return WARP * words * real_bytes(self.dtype)

    @property
    def _bytes_ahead(self) -> int:
        """Bytes of shared memory for maps of tiles before, as the headers lay them out."""
        helpers = max(self.warps - math.ceil(self.warps / _GROUP), 1) - 1
        found = [0]
        for words in map_words(self.linear, self.maxima, self.dtype):
            each = WARP * words * real_bytes(self.dtype)
            if words and not self.sequential:
                found.append(min(2 * helpers, _AHEAD_BYTES // each) * each)
        return max(found)

    @property
    def shared(self) -> int:
        """Bytes of shared memory per block, as the headers lay it out."""
        linear, real, factor = self.linear, real_bytes(self.dtype), factor_bytes(self.dtype)
        # The maps of warps, of the tile and of groups of warps; and what is carried into the steps
        # of each warp.
        maps = 1 if self.sequential else self.warps + math.ceil(self.warps / _GROUP)
        of_maxima = self.maxima * (factor + real)
        used = max(of_maxima, linear * (linear * factor + real + _COUNTER_BYTES)) * WARP * maps
        used += self._bytes_ahead + self.threads * self.carried * real
        sums = self.sums + self.states * self.masked
        if self.direction == "backward":
            total = 4 if ELEMENT_BYTES[self.dtype] == 2 else 8
            used = 8 * math.ceil(used / 8) + self.threads * sums * total
        # Of two tiles. The values before the last step are those of a step more.
        each = self.threads * self.chunk * (self.copied + self.states_copied)
        each += self.warps * self.channels * self.states_copied
        each *= ELEMENT_BYTES[self.dtype]
        if self.masked:
            words = WORD_BYTES * restart_words(self.parts * self.chunk)
            each += self.warps * _PIECE_BYTES * math.ceil(words / _PIECE_BYTES)
        copies = 2 * each * self.whole_warps
        return _PIECE_BYTES * math.ceil(used / _PIECE_BYTES) + copies

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        if self.sequential:
            return LaunchShape(self.threads, self.shared)
        return LaunchShape(self.threads, self.shared, waits_for="all")

    def with_more_registers(self, limits: Limits) -> Self | None:
        """The same plan with fewer blocks per SM, or tiles in turns with fewer warps.

        Args:
            limits: the GPU.
        """
        more = super().with_more_registers(limits)
        few = self.warps - _GROUP
        if more is not None or self.sequential or few <= 0:
            return more
        # By the estimate a tile of fewer steps takes less than blocks that take all tiles of few
        # channels, which are the other plans.
        fewer = replace(self, warps=few).sharing(limits, self.blocks_per_multiprocessor)
        return fewer if fewer.registers > self.registers else None

    def for_template(self, pointwise: Pointwise) -> dict[str, object]:
        """Return what is carried, and the functions of a step.

        Args:
            pointwise: the derived maps of the cell.
        """
        cell = pointwise.cell
        form, states = form_of(cell, self.direction), layout_of(cell).states
        return {
            "carried": form.carried,
            "maxima": form.maxima,
            "carried_numbers": [states.at(name).number for name in form.carried],
            "step": step_functions(pointwise, self.direction, sorted(self.passed)),
        }

    def parts_of_sums(self, batch: int, steps: int) -> int:
        """Return how many partial sums a backward writes: one per row and tile.

        Args:
            batch: rows of the call.
            steps: of the call.
        """
        return batch if self.sequential else batch * self.tiles(steps)

    def parts_of_resets(self, steps: int) -> int:
        """Return how many partial sums of each row it writes for reset values: one per tile.

        Args:
            steps: of the call.
        """
        return 1 if self.sequential else self.tiles(steps)

    def waiting_blocks(self, batch: int, heads: int) -> int:
        """Return the blocks that must be on the chip at once: a launch has as many as have room.

        Args:
            batch: rows of the call.
            heads: of the call.
        """
        return 0 if self.sequential else 1

    def buffer_bytes(self, batch: int, heads: int) -> BufferBytes:
        """The size of what tiles publish.

        Args:
            batch: rows of the call.
            heads: of the call.
        """
        if self.sequential:
            return BufferBytes()
        tile = self.groups(batch, heads, self.head_dim) * self.tile_record_bytes
        return BufferBytes(math.ceil(tile / self.tile_steps), tile)

    def brief(self, backward: KernelPlan) -> str:
        """In a few words, what distinguishes a pair of scan plans from other pairs."""
        steps = [p.tile_steps for p in (self, backward) if isinstance(p, ScanPlan)]
        return f"scan: tiles of {' and '.join(map(str, steps))} steps"

    @property
    def mapping(self) -> str:
        """Which blocks compute which steps, in words."""
        units = counted(self.channels, "unit")
        if self.sequential:
            return f"a block per {units} of batch rows, {self.tile_steps} steps at a time"
        return f"a block per {self.tile_steps} steps of {units} of batch rows, in turns"

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        return (
            f"{counted(self.warps, 'warp')}, {counted(self.chunk, 'step')} per thread,"
            f" {self.registers} registers per thread, {self.shared} bytes of shared memory,"
            f" {counted(self.blocks_per_multiprocessor, 'block')} per SM"
        )
