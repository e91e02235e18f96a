"""The alternating plan of a cell, a shape and a GPU."""

from __future__ import annotations

from ..cellspec.cell import CellSpec
from .alternating_cost import alternating_nanoseconds
from .alternating_plan import AlternatingPlan
from .derive import derive
from .limits import Limits
from .shape import Save, Shape


def alternating_plan(
    cell: CellSpec, shape: Shape, limits: Limits, save: Save = "gates", tf32: bool = False
) -> AlternatingPlan:
    """The alternating plan of a cell, which every size has.

    The arguments are those of `block.block_plan`.
    """
    return AlternatingPlan(
        arch=limits.arch,
        dtype=shape.dtype,
        nanoseconds=alternating_nanoseconds(derive(cell), shape),
        tf32=tf32,
        save=save,
    )
