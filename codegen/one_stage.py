"""Refusal of cells whose step has stages, by kernels that do not run them."""

from __future__ import annotations

from ..cellspec.cell import CellSpec
from ..cellspec.stages.levels import first_stage
from .shape import PlanError


def check_one_stage(cell: CellSpec, kernels: str, write: str) -> None:
    """Refuse a cell whose step needs a product or a reduction of values that it has computed.

    Args:
        cell: the cell.
        kernels: those that refuse it, in a word.
        write: what to write instead.

    Raises:
        PlanError: names the first of them.
    """
    found = first_stage(cell.updates)
    if found is None:
        return
    what = "a product with a value of the step" if found.op == "gate" else "a reduction over units"
    raise PlanError(
        cell.name,
        f"`{found}`, {what}",
        f"gates that are not called, and no reductions, for {kernels} kernels",
        write,
    )
