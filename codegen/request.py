"""Requests for a plan."""

from __future__ import annotations

from dataclasses import dataclass

from ..cellspec.cell import CellSpec
from ..cellspec.errors import kind_of
from .cuda.limits import Limits
from .shape import PlanError, Save, Shape


@dataclass(frozen=True)
class PlanRequest:
    """Request for a plan: all that decides which plans there are and what they cost.

    Attributes:
        cell: the cell.
        shape: sizes and dtype. Batch, heads and steps are run-time values, and only help to choose
            among plans that all serve them.
        limits: the GPU.
        save: what the forward saves for the backward.
        tf32: whether float32 products may round to tf32.
        features: of a module's input, where a single step of its layers is asked for; None for a
            call over time. The plans serve any number of layers.

    Raises:
        PlanError: the shape or the limits are of another type, or the features are negative.
    """

    cell: CellSpec
    shape: Shape
    limits: Limits
    save: Save = "gates"
    tf32: bool = False
    features: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape):
            write = "rnnc.Shape(heads=1, head_dim=64)"
            raise PlanError("shape", kind_of(self.shape), "an rnnc.Shape", write)
        if not isinstance(self.limits, Limits):
            write = 'rnnc.codegen.cuda.limits.limits_of("H200"), or rnnc.Limits(...)'
            raise PlanError("limits", kind_of(self.limits), "an rnnc.Limits", write)
        if self.features is not None and self.features < 0:
            found = f"features={self.features}"
            raise PlanError("plan of a single step", found, "features of at least 0", "features=64")

    @property
    def single(self) -> bool:
        """True if a single step of a module's layers is asked for."""
        return self.features is not None


# A plan of a cell with dense matrices is chosen for so many steps.
DENSE_STEPS = 1024
# The same of other cells, by the fewest steps of a call. NOTE: a scan of few units is faster than a
# walk well below 1,024 steps: HGRN, B 1, 4 x 512, takes 8 us in place of 20 for 512 of them
# (forward, H100, 2026-11-27).
_STEPS_FROM = {0: 64, 257: 1024, 16384: 16384}


def steps_like(cell: CellSpec, steps: int) -> int:
    """The number of steps that a plan is chosen for: of dense cells always the same.

    Their plans cost the same per step. Those of other cells are walks, which cost more per step,
    and scans, which take longer to begin.

    Args:
        cell: the cell.
        steps: of a call.
    """
    if cell.dense_pairs:  # `recurrence` would import sympy in a first call
        return DENSE_STEPS
    return max(number for first, number in _STEPS_FROM.items() if first <= steps)
