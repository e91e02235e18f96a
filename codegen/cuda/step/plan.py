"""The plan of a single step of a module's layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from ...shape import counted
from ..kernel_plan import KernelPlan, LaunchShape
from ..limits import Limits
from ..mma import TILE_M
from .gradient_tile import GradientTile
from .tile import Tile

_WARP = 32


@dataclass(frozen=True, kw_only=True)
class StepPlan(KernelPlan):
    """One launch per layer and direction; all sizes are run-time values.

    The attributes that are not listed are those of `KernelPlan`.

    Attributes:
        rows: batch rows of a block of a forward that multiplies too, without matrix instructions;
            else 0.
        tile: the sizes of a block of a forward that multiplies by matrix instructions; None where
            it does not.
        gradient_tile: the sizes of a block of a backward that multiplies by matrix instructions;
            None where it does not.
    """

    kind: ClassVar[str] = "step"
    steps_per_launch: ClassVar[Literal["all", "one"]] = "one"

    rows: int = 0
    tile: Tile | None = None
    gradient_tile: GradientTile | None = None

    @property
    def multiplies(self) -> bool:
        """True if its kernel multiplies too; else the matrix library does."""
        return self.rows > 0 or self._blocks is not None

    @property
    def _blocks(self) -> Tile | GradientTile | None:
        return self.tile or self.gradient_tile

    @property
    def threads(self) -> int:
        """Threads per block."""
        return 128 if self._blocks is None else self._blocks.threads

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        return LaunchShape(self.threads, 0 if self._blocks is None else self._blocks.shared)

    @property
    def agreed(self) -> dict[str, object]:
        """By name, the values that the other direction's plan must have too."""
        # Each direction rounds to TF32 only where its own kernel multiplies.
        return {name: value for name, value in super().agreed.items() if name != "tf32"}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the translation unit."""
        names = [f"rnnc_step_{self.direction}"]
        return tuple(names if self.gradient_tile is None else [*names, "rnnc_step_inputs"])

    def with_more_registers(self, limits: Limits) -> Self | None:
        """The same plan with half of the batch rows per block, whose sums a thread keeps.

        Args:
            limits: the GPU.
        """
        return replace(self, rows=self.rows // 2) if self.rows > 1 else None

    def grid(self, batch: int, heads: int, dim: int) -> tuple[int, int, int]:
        """The blocks of a launch, in x, y and z; those of a gradient tile depend on the layer.

        Args:
            batch: rows of the call.
            heads: of the call.
            dim: units per head.
        """
        units = heads * dim
        if self.tile is not None:
            return self.tile.blocks(batch, heads, dim)
        if self.rows:
            return math.ceil(units / (self.threads // _WARP)), math.ceil(batch / self.rows), 1
        return math.ceil(batch * units / self.threads), 1, 1

    @property
    def mapping(self) -> str:
        """Which threads compute which items, in words."""
        if self.tile is not None:
            return f"a block per {self.tile.units} units and {self.tile.rows} batch rows"
        if self.gradient_tile is not None:
            return f"a block per {TILE_M} units and {self.gradient_tile.columns} columns of weights"
        return "a warp per unit" if self.rows else "a thread per unit and batch row"

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        if self.tile is not None:
            return counted(self.tile.slices, "slice") + " of K"
        if self.gradient_tile is not None:
            return "product: all batch rows"
        return counted(self.rows, "batch row") if self.rows else "product: matrix library"
