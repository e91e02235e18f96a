"""Lengths, resets and unweighted inputs of a module's call, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.ragged import Ragged
from ..check.masks import check_lengths, check_reset, check_reset_values
from ..check.tensor import check_strided, check_tensor, shape_error
from ..check.unweighted import check_kind_of_input, check_names_of_inputs, spreads_over
from .draws import Sizes, Undrawn

# The features of each state, by its name.
Widths = Mapping[str, int]


def ragged_of(
    parts: int, widths: Widths, x: Tensor, batch_first: bool, masks: tuple[Any, Any, Any]
) -> Ragged | None:
    """Return the lengths and resets of a module's call over time, checked; None without any.

    `parts` are layers times directions, x is as the caller gives it, checked, and `masks` are
    lengths, resets and reset values. `lengths` are (B,), or () for one sequence, and `reset` is in
    x's layout without its last axis. `reset_to` is (layers * directions, hidden) for each state,
    the same with B or, of what is stored for each step, with x's first axes in between.
    """
    lengths, reset, reset_to = masks
    if lengths is None and reset is None and reset_to is None:
        return None
    outer, single = tuple(x.shape[:-1]), x.ndim == 2
    batch, steps = (1, *outer) if single else outer if batch_first else outer[::-1]
    if lengths is not None:
        check_lengths(lengths, batch, steps, () if single else (batch,))
        lengths = lengths.view(batch)
    if reset is not None:
        axes = "(T,)" if single else "(B, T)" if batch_first else "(T, B)"
        check_reset(reset, outer, axes, "x", x)
        reset = reset.unsqueeze(1) if single else reset.t() if batch_first else reset
    if reset_to is not None:
        shapes: dict[str, tuple[int, ...]] = {"L": (parts,)}
        if not single:
            shapes["L, B"] = parts, batch
        over_time = "T" if single else "B, T" if batch_first else "T, B"
        shapes[f"L, {over_time}"] = (parts, *outer)
        _check_values(widths, reset_to, reset, shapes, x)
        if single:
            reset_to = [v.unsqueeze(2) if v.ndim == 3 else v for v in reset_to]
        elif batch_first:
            reset_to = [v.transpose(1, 2) if v.ndim == 4 else v for v in reset_to]
    return Ragged(lengths, reset, reset_to)


def reset_of_step(layers: int, widths: Widths, x: Tensor, reset: Any, reset_to: Any) -> Ragged:
    """Return the resets before a single step, checked; raise a `TensorError` if one does not fit.

    x is (B, input) and `reset` (B,), or (input) and () for one sequence. `reset_to` is
    (layers, hidden) or (layers, B, hidden) for each state.
    """
    outer = tuple(x.shape[:-1])
    if reset is not None:
        check_reset(reset, outer, "(B,)" if outer else "()", "x", x)
    shapes = {"L": (layers,)} | ({"L, B": (layers, *outer)} if outer else {})
    _check_values(widths, reset_to, reset, shapes, x)
    return Ragged(None, reset, reset_to)


def _check_values(
    widths: Widths, values: Any, reset: Any, outer: Mapping[str, tuple[int, ...]], x: Tensor
) -> None:
    """Check reset values of one of the shapes `outer`, by the names of axes, with features last."""
    axes = ", ".join(f"({own}, features)" for own in outer) + " with L = layers * directions"
    shapes = {name: [(*own, width) for own in outer.values()] for name, width in widths.items()}
    check_reset_values(values, reset, shapes, axes, x)


def unweighted_of(
    cell: CellSpec, inputs: Any, x: Tensor, axes: str, sizes: Sizes
) -> tuple[Tensor, ...]:
    """Return the inputs of a module's call in the form of `Tensors`.

    Each has x's `axes` without the last one ("TB", "BT", "T", "B" or ""), and then none, or units
    as (hidden), or heads and units; 1 in place of a size where all have one value. An axis of
    layers and directions may come before them. Where a shape has two meanings, it is that without
    this axis. What is drawn later stays as it is.
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
