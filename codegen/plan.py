"""Plans: how a cell is mapped onto a machine. A plan's type is its variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .cuda.alternating.plan import AlternatingPlan
from .cuda.block.plan import BlockPlan
from .cuda.cluster.plan import ClusterPlan
from .cuda.grid.plan import GridPlan
from .shape import Dtype


@dataclass(frozen=True)
class CpuPlan:
    """One C++ kernel for a batch of sequences on the CPU's cores.

    Sizes, strides and threads are run-time values, so one binary serves all of them.

    Attributes:
        dtype: the scalar type of all tensors. float64 is the same text with another type, so that
            a gradient check in float64 tests the code that ships in float32.
    """

    dtype: Dtype = "float32"

    @property
    def scalar(self) -> str:
        """The C++ type of a number."""
        return {"float32": "float", "float64": "double"}[self.dtype]

    def __str__(self) -> str:
        return (
            f"CPU, {self.dtype}: one task a (head, tile of batch rows); recurrent matrices packed"
            " once a call; pointwise maps vectorised over units"
        )


FusedPlan = BlockPlan | ClusterPlan | GridPlan
CudaPlan = FusedPlan | AlternatingPlan
Plan = CpuPlan | CudaPlan

Variant = Literal["auto", "block", "cluster", "grid", "alternating"]
VARIANTS: tuple[Variant, ...] = ("auto", "block", "cluster", "grid", "alternating")
