"""Form of a cell that a scan over tiles of steps computes: which states it carries, by which map.

A step of a direction maps the values that it carries by `A x + b`. The map of a tile is that of its
steps one after the other. The forward carries the states of affine parts, and A is a function of
gates, params and inputs. The backward carries gradients of states, and A is the cell's own adjoint,
which is linear in them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....cellspec.cell import CellSpec
from ....cellspec.expression.graph import rewritten
from ....cellspec.expression.node import Node, number
from ....cellspec.recurrence.analysis import diagonal_weights
from ....cellspec.recurrence.classify import Part
from ....cellspec.recurrence.sight import (
    MOST_COUPLED,
    fed_by_states,
    states_seen,
    symbols_that_see,
    unit_updates,
)
from ....cellspec.recurrence.words import joined
from ...derive import derive
from ...gradient_only import known_values
from ...layout import layout_of
from ...program import Program
from ...schedule import schedule
from ...shape import Direction


class NoScanError(Exception):
    """A direction of a cell that no scan computes, with the reason as a clause."""


@dataclass(frozen=True)
class Form:
    """The map of a step.

    Attributes:
        carried: the names of the states that are carried, or whose gradients are.
        coefficients: of a forward, computes the matrix A: `a_<row>_<column>`, by their numbers in
            `carried`. None for a backward, whose adjoint gives a column of A for a unit vector.
        weights: of a forward, the symbols of the diagonal weights in the order of the layout.
    """

    carried: tuple[str, ...]
    coefficients: Program | None = None
    weights: tuple[str, ...] = ()


def form_of(cell: CellSpec, direction: Direction) -> Form:
    """The map of a step of a direction.

    Args:
        cell: the cell.
        direction: which of the two.

    Raises:
        NoScanError: a scan does not compute it.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.scan.form import form_of
        >>> print(form_of(rnnc.cells.mingru, "forward").coefficients)
        a_0_0 = 1 - sigmoid(z)
        >>> form_of(rnnc.cells.sru, "backward").carried
        ('c',)
    """
    kind, reason = cell.recurrence.kind, cell.recurrence.reason
    if direction == "backward":
        kind, reason = cell.recurrence.adjoint, cell.recurrence.adjoint_reason
    if kind != "affine":
        raise NoScanError(reason)
    found = _forward(cell) if direction == "forward" else _backward(cell)
    if not found.carried:
        raise NoScanError("no state reads its own past")
    if len(found.carried) > MOST_COUPLED:
        raise NoScanError(f"{joined(found.carried)} are more than {MOST_COUPLED} states")
    return found


def _forward(cell: CellSpec) -> Form:
    parts = [part for part in cell.recurrence.parts if part.kind == "affine"]
    carried = tuple(state for part in parts for state in part.states)
    updates = dict(zip((s.name for s in cell.states), unit_updates(cell), strict=True))
    seen = states_seen(updates.values(), symbols_that_see(cell))
    for part in cell.recurrence.parts:
        own = carried if part.kind == "output" else part.states
        for state in part.states:
            other = sorted(seen[updates[state]].difference(own))
            if other:
                reason = f"{state} reads the old value of {joined(other)}, in another part"
                raise NoScanError(reason)
        if part.maximum is not None:
            raise NoScanError(f"{part.reason} is a maximum, which no scan plan computes yet")
    weights = tuple(_weight(cell, pair.gate, pair.source) for pair in cell.diagonal_pairs)
    taken = {declared.name for declared in cell.declarations}
    clash = sorted(taken.intersection(weights))
    if clash:
        raise NoScanError(f"{joined(clash)} is also the name of a diagonal weight")
    entries = _entries(parts, carried)
    program = schedule(
        entries, constants=(c.name for c in cell.constants), taken={*taken, *weights}
    )
    if program.has_loops:
        raise NoScanError("a loop computes the coefficients of a step")
    return Form(carried, program, weights)


def _weight(cell: CellSpec, gate: str, source: str) -> str:
    if gate not in {pair.gate for pair in fed_by_states(cell)}:
        return ""
    return diagonal_weights(cell, gate)[source].name


def _entries(parts: list[Part], carried: tuple[str, ...]) -> dict[str, Node]:
    """The entries of the matrix that may not be 0, by their names; what only gradients need is not
    in them.
    """
    found = {}
    for part in parts:
        for state, row in zip(part.states, part.matrix, strict=True):
            for source, entry in zip(part.states, row, strict=True):
                name = f"a_{carried.index(state)}_{carried.index(source)}"
                found[name] = number(0) if entry is None else entry
    values = found.values()
    return dict(zip(found, rewritten(values, known_values(values)), strict=True))


def _backward(cell: CellSpec) -> Form:
    layout, reach = layout_of(cell), derive(cell).backward.reach()
    sources = {layout.states[source] for source in layout.diagonal_sources.values}
    after = {f"d_{state}_next" for state in layout.states.names}
    carried = (s for s in layout.states.names if s in sources or after & reach[f"d_{s}"])
    return Form(tuple(carried))
