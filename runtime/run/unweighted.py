"""Inputs of a module's call that no weight multiplies."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...cellspec.cell import CellSpec
from ..check.tensor import check_strided, check_tensor, shape_error
from ..check.unweighted import check_kind_of_input, check_names_of_inputs, spreads_over


def unweighted_of(
    cell: CellSpec, inputs: Any, x: Tensor, axes: str, heads: int, dim: int
) -> tuple[Tensor, ...]:
    """Return the inputs of a module's call in the form of `ScanInputs`, the same for all layers.

    Args:
        inputs: the argument, by name: x's axes without the last one, and then none, or units as
            (hidden), or heads and units; 1 in place of a size where all have one value.
        x: as the caller gives it, checked.
        axes: of x without the last one: "TB", "BT", "T", "B" or "".
    """
    check_names_of_inputs(cell, inputs)
    found = []
    for spec in cell.inputs:
        given = _by_heads(f"inputs[{spec.name!r}]", inputs[spec.name], x, axes, heads, dim)
        found.append(_rows_and_steps(given, axes))
    return tuple(found)


def _by_heads(name: str, given: Any, x: Tensor, axes: str, heads: int, dim: int) -> Tensor:
    """Return an input with x's axes, heads and units."""
    outer, hidden = tuple(x.shape[:-1]), heads * dim
    first = ", ".join(axes)
    wanted = f"{outer}, ({first}), or {(*outer, hidden)}, ({first}{', ' * bool(axes)}hidden)"
    check_tensor(name, given, wanted)
    check_strided(name, given)
    shape, count = tuple(given.shape), len(outer)
    units = shape[count:]
    fits = spreads_over(shape[:count], outer) and (
        len(units) == 0 or spreads_over(units, (hidden,)) or spreads_over(units, (heads, dim))
    )
    if not fits:
        raise shape_error(name, given, wanted, f"{name} of the shape {outer}")
    check_kind_of_input(name, given, "x", x)
    found: Tensor = given
    if len(units) == 0:
        found = given.view(*shape, 1, 1)
    elif len(units) == 1:
        found = given.unflatten(-1, (heads, dim) if units[0] == hidden else (1, 1))
    return found


def _rows_and_steps(given: Tensor, axes: str) -> Tensor:
    """Return the same with rows first and steps second."""
    if axes == "TB":
        return given.transpose(0, 1)
    with_rows = given if "B" in axes else given.unsqueeze(0)
    return with_rows if "T" in axes else with_rows.unsqueeze(1)
