"""Inputs of a module's call that no weight multiplies."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...cellspec.cell import CellSpec
from ..check.tensor import check_strided, check_tensor, shape_error
from ..check.unweighted import check_kind_of_input, check_names_of_inputs, spreads_over
from .draws import Sizes, Undrawn


def unweighted_of(
    cell: CellSpec, inputs: Any, x: Tensor, axes: str, sizes: Sizes
) -> tuple[Tensor, ...]:
    """Return the inputs of a module's call in the form of `Tensors`.

    Args:
        inputs: the argument, by name: x's axes without the last one, and then none, or units as
            (hidden), or heads and units; 1 in place of a size where all have one value. An axis
            of layers and directions may come before them. Where a shape has two meanings, it is
            that without this axis.
        x: as the caller gives it, checked.
        axes: of x without the last one: "TB", "BT", "T", "B" or "".

    What is drawn later stays as it is.
    """
    check_names_of_inputs(cell, inputs)
    found = []
    for spec in cell.inputs:
        if isinstance(inputs[spec.name], Undrawn):
            found.append(inputs[spec.name])
            continue
        given = _by_heads(f"inputs[{spec.name!r}]", inputs[spec.name], x, axes, sizes)
        found.append(_rows_and_steps(given, axes))
    return tuple(found)


def _by_heads(name: str, given: Any, x: Tensor, axes: str, sizes: Sizes) -> Tensor:
    """Return an input with x's axes, heads and units, perhaps behind layers and directions."""
    outer, hidden = tuple(x.shape[:-1]), sizes.heads * sizes.dim
    first = ", ".join(axes)
    # One text: torch.compile joins none where sizes have no numbers.
    wanted = (
        f"{outer}, ({first}), or {(*outer, hidden)}, ({first}{', ' * bool(axes)}hidden);"
        f" or behind {sizes.parts}, layers * directions"
    )
    check_tensor(name, given, wanted)
    check_strided(name, given)
    shape = tuple(given.shape)
    if _fits(shape, outer, sizes):
        units = shape[len(outer) :]
    elif _fits(shape, (sizes.parts, *outer), sizes):
        units = shape[len(outer) + 1 :]
    else:
        raise shape_error(name, given, wanted, f"{name} of the shape {outer}")
    check_kind_of_input(name, given, "x", x)
    found: Tensor = given
    if len(units) == 0:
        found = given.view(*shape, 1, 1)
    elif len(units) == 1:
        found = given.unflatten(-1, (sizes.heads, sizes.dim) if units[0] == hidden else (1, 1))
    if found.ndim > len(outer) + 2 and found.shape[0] == 1:  # one for all layers
        found = found[0]
    return found


def _fits(shape: tuple[int, ...], outer: tuple[int, ...], sizes: Sizes) -> bool:
    """Return True if a shape is `outer`, with units, or heads and units, behind it or not.

    Shapes with another number of axes are not compared: to a compiler a comparison is a condition.
    """
    kinds: tuple[tuple[int, ...], ...] = (), (sizes.heads * sizes.dim,), (sizes.heads, sizes.dim)
    return any(spreads_over(shape, (*outer, *units)) for units in kinds)


def _rows_and_steps(given: Tensor, axes: str) -> Tensor:
    """Return the same with rows and steps, in this order, before heads and units."""
    if axes == "TB":
        return given.transpose(-4, -3)
    with_rows = given if "B" in axes else given.unsqueeze(-3 - len(axes))
    return with_rows if "T" in axes else with_rows.unsqueeze(-3)
