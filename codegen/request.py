"""What a plan is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..cellspec.cell import CellSpec
from .cuda.limits import Limits
from .shape import Save, Shape


@dataclass(frozen=True)
class PlanRequest:
    """What a plan is asked for: all that decides which plans there are and what they cost.

    Attributes:
        cell: the cell.
        shape: sizes and dtype. Batch, heads and steps are run-time values, and only help to choose
            among plans that all serve them.
        limits: the GPU.
        save: what the forward saves for the backward.
        tf32: whether float32 products may round to tf32.
    """

    cell: CellSpec
    shape: Shape
    limits: Limits
    save: Save = "gates"
    tf32: bool = False
