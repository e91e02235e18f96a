"""The plan of a single step, which is no kind of plan for sequences: `auto` never meets it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ....cellspec.cell import CellSpec
from ...layout import layout_of
from ...shape import Dtype, Shape, counted
from ..kernel_plan import KernelPlan, LaunchShape
from ..limits import Limits
from ..mma import TILE_M
from .gradient_tile import GradientTile, gradient_tile
from .tile import Tile, best_tile

# Where one kernel multiplies too, it reads the weights once per `MOST_ROWS` batch rows. Up to so
# many batch rows, and so many products of numbers in float32 and in the other dtypes, it takes less
# time on an H200 than two products of the matrix library and a pointwise kernel, or as much with
# fewer launches. An LSTM of 512 units in float32, in us: 4.4 and 8.0 at 1 row, 6.6 and 13.5 at 8,
# 15.0 and 14.1 at 32; of 2048 units: 35 and 51 at 1 row, 55 and 47 at 4.
MOST_FUSED = 32
MOST_PRODUCTS = {"float32": 2**26}
MOST_PRODUCTS_ELSE = 2**25
MOST_ROWS = 8
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
        """Whether its kernel multiplies too; else the matrix library does."""
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
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the translation unit."""
        names = [f"rnnc_step_{self.direction}"]
        return tuple(names if self.gradient_tile is None else [*names, "rnnc_step_inputs"])

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


def forward_plan(cell: CellSpec, shape: Shape, size: int, limits: Limits, tf32: bool) -> StepPlan:
    """The plan of the forward of a module's layers: who multiplies, and with which sizes.

    Args:
        cell: the cell.
        shape: of a layer; its batch is that of the call.
        size: features of the module's input.
        limits: of the GPU.
        tf32: whether products of float32 may round their factors to TF32.
    """
    layout = layout_of(cell)
    units = shape.heads * shape.head_dim
    weights = len(layout.input_gates) * units * max(size, units)
    weights += len(layout.dense_gates) * units * shape.head_dim
    plan = StepPlan(direction="forward", arch=limits.arch, dtype=shape.dtype)
    tile = best_tile(cell, shape, size, limits, tf32)
    if tile is not None:
        return replace(plan, tile=tile, tf32=shape.dtype == "float32")
    return replace(plan, rows=fused_rows(shape.batch, weights, shape.dtype))


def backward_plan(cell: CellSpec, shape: Shape, size: int, limits: Limits, tf32: bool) -> StepPlan:
    """The plan of the backward of a module's layers, likewise.

    Args:
        cell: as of `forward_plan`.
        shape: likewise.
        size: likewise.
        limits: likewise.
        tf32: likewise.
    """
    plan = StepPlan(direction="backward", arch=limits.arch, dtype=shape.dtype)
    tile = gradient_tile(cell, shape, size, limits, tf32)
    return (
        plan if tile is None else replace(plan, gradient_tile=tile, tf32=shape.dtype == "float32")
    )


def fused_rows(batch: int, weights: int, dtype: Dtype) -> int:
    """The batch rows of a block of a forward that multiplies too; 0 where it should not.

    Args:
        batch: rows of the call.
        weights: numbers in W and R of a layer.
        dtype: of the call.
    """
    most = MOST_PRODUCTS.get(dtype, MOST_PRODUCTS_ELSE)
    if batch > MOST_FUSED or batch * weights > most:
        return 0
    return min(1 << (max(batch, 1) - 1).bit_length(), MOST_ROWS)
