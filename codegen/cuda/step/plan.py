"""The plan of a single step, which is no kind of plan for sequences: `auto` never meets it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...shape import Dtype, counted
from ..kernel_plan import KernelPlan, LaunchShape

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
        rows: batch rows of a block of a forward that multiplies too; 0 where the matrix library
            multiplies.
    """

    kind: ClassVar[str] = "step"
    steps_per_launch: ClassVar[Literal["all", "one"]] = "one"

    rows: int = 0

    @property
    def threads(self) -> int:
        """Threads per block."""
        return 128

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        return LaunchShape(self.threads)

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the translation unit."""
        return (f"rnnc_step_{self.direction}",)

    def grid(self, batch: int, units: int) -> tuple[int, int, int]:
        """The blocks of a launch, in x, y and z.

        Args:
            batch: rows of the call.
            units: of all heads.
        """
        if self.rows:
            return math.ceil(units / (self.threads // _WARP)), math.ceil(batch / self.rows), 1
        return math.ceil(batch * units / self.threads), 1, 1

    @property
    def mapping(self) -> str:
        """Which threads compute which items, in words."""
        return "a warp per unit" if self.rows else "a thread per unit and batch row"

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        return counted(self.rows, "batch row") if self.rows else "product: matrix library"


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
