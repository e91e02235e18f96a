"""Form of a cell that a scan over tiles of steps computes: which states it carries, by which map.

A step of a direction maps the values that it carries by `A x + b`. The map of a tile is that of its
steps one after the other. The forward carries the states of affine parts, and A is a function of
gates, params and inputs. The backward carries gradients of states, and A is the cell's own adjoint,
which is linear in them.

A state that becomes `maximum(x + a, b)` has a map of that form. Those of all such states come
first: A may read their values, which are known by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....cellspec.cell import CellSpec
from ....cellspec.expression.graph import rewritten
from ....cellspec.expression.node import Node, number, symbol
from ....cellspec.recurrence.adjoint import clipped_on_the_way
from ....cellspec.recurrence.analysis import Analysis, diagonal_weights
from ....cellspec.recurrence.forms import NoFormError
from ....cellspec.recurrence.sight import (
    MOST_COUPLED,
    fed_by_states,
    states_seen,
    symbols_that_see,
    unit_updates,
)
from ....cellspec.recurrence.words import joined, quoted
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
        maxima: the first ones of `carried`, which become maxima.
        coefficients: of a forward, computes the matrix A: `a_<row>_<column>`, by their numbers in
            `carried` behind `maxima`; and `shift_<number>`, what a maximum adds to its state. None
            for a backward, whose adjoint gives a column of A for a unit vector.
        weights: of a forward, the symbols of the diagonal weights in the order of the layout.
    """

    carried: tuple[str, ...]
    coefficients: Program | None = None
    weights: tuple[str, ...] = ()
    maxima: tuple[str, ...] = ()

    @property
    def linear(self) -> tuple[str, ...]:
        """The carried states that a matrix multiplies."""
        return self.carried[len(self.maxima) :]


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
    weights = _weights(cell)
    taken = {declared.name for declared in cell.declarations}
    clash = sorted(taken.intersection(weights.values()))
    if clash:
        raise NoScanError(f"{joined(clash)} is also the name of a diagonal weight")
    maxima = _maxima(cell)
    linear = tuple(state for state in _carried(cell) if state not in maxima)
    program = schedule(
        _entries(cell, maxima, linear, weights),
        constants=(c.name for c in cell.constants),
        taken={*taken, *weights.values()},
    )
    if program.has_loops:
        raise NoScanError("a loop computes the coefficients of a step")
    names = (weights.get((p.gate, p.source), "") for p in cell.diagonal_pairs)
    return Form((*maxima, *linear), program, tuple(names), tuple(maxima))


def _reads(cell: CellSpec) -> dict[str, frozenset[str]]:
    """For each state, the states whose old values its new value reads."""
    updates = dict(zip((s.name for s in cell.states), unit_updates(cell), strict=True))
    seen = states_seen(updates.values(), symbols_that_see(cell))
    return {name: seen[update] for name, update in updates.items()}


def _maxima(cell: CellSpec) -> dict[str, Node]:
    """Return the term that each maximum adds to its state, by the state."""
    reads, found = _reads(cell), {}
    for part in cell.recurrence.parts:
        if part.maximum is None:
            continue
        (state,) = part.states
        others = sorted(reads[state].difference(part.states))
        if others:
            raise NoScanError(f"the maximum {state} reads {joined(others)}, which is carried too")
        assert part.maximum.shift is not None
        found[state] = part.maximum.shift
    return found


def _carried(cell: CellSpec) -> tuple[str, ...]:
    """The states that are carried on: of affine parts, and others whose old values are read."""
    parts, read = cell.recurrence.parts, frozenset().union(*_reads(cell).values())
    states = (s for part in parts for s in part.states if part.kind == "affine" or s in read)
    return tuple(states)


def _weights(cell: CellSpec) -> dict[tuple[str, str], str]:
    """The names of diagonal weights by gate and source, as C++ can spell them."""
    found = {}
    for i, pair in enumerate(cell.diagonal_pairs):
        if pair in fed_by_states(cell):
            name = diagonal_weights(cell, pair.gate)[pair.source].name
            # The weights of a gate with several sources have a comma in their names.
            found[pair.gate, pair.source] = f"_u_{pair.gate}_{i}" if "," in name else name
    return found


def _entries(
    cell: CellSpec,
    maxima: Mapping[str, Node],
    linear: tuple[str, ...],
    weights: Mapping[tuple[str, str], str],
) -> dict[str, Node]:
    """The entries of the matrix that may not be 0 and what maxima add, by their names; what only
    gradients need is not in them.
    """
    found = {f"shift_{i}": shift for i, shift in enumerate(maxima.values())}
    for i, row in enumerate(_rows(cell, linear, frozenset(maxima))):
        for k, entry in row.items():
            found[f"a_{i}_{k}"] = entry
    values = found.values()
    spelled: dict[Node, Node] = {
        diagonal_weights(cell, gate)[source]: symbol(name)
        for (gate, source), name in weights.items()
    }
    return dict(zip(found, rewritten(values, {**known_values(values), **spelled}), strict=True))


def _rows(cell: CellSpec, carried: tuple[str, ...], known: frozenset[str]) -> list[dict[int, Node]]:
    """The rows of the matrix, by the numbers of their columns; at least an entry in each.

    Entries may read the states of `known`.
    """
    reads, found = _reads(cell), []
    of_part = {s: part for part in cell.recurrence.parts for s in part.states}
    updates = dict(zip((s.name for s in cell.states), unit_updates(cell), strict=True))
    together = Analysis(cell, carried)
    for i, state in enumerate(carried):
        part = of_part[state]
        if part.kind == "affine" and reads[state] - known <= set(part.states):
            row = part.matrix[part.states.index(state)]
            entries = dict(zip(part.states, (e or number(0) for e in row), strict=True))
        else:
            # A sum of values of other parts, too, is an entry of one larger matrix.
            try:
                entries = dict(together.affine(updates[state]).coefficients)
            except NoFormError as reason:
                other = joined(sorted(reads[state].difference(part.states, known)))
                raise NoScanError(
                    f"{state} reads the old value of {other}, in another part: {reason}"
                ) from None
        found.append({carried.index(s): e for s, e in entries.items()} or {i: number(0)})
    return found


def _backward(cell: CellSpec) -> Form:
    layout, reach = layout_of(cell), derive(cell).backward.reach()
    sources = {layout.states[source] for source in layout.diagonal_sources.values}
    after = {f"d_{state}_next" for state in layout.states.names}
    carried = (s for s in layout.states.names if s in sources or after & reach[f"d_{s}"])
    form = Form(tuple(carried))
    clip = clipped_on_the_way(cell, form.carried)
    if clip is not None:
        raise NoScanError(f"{quoted(clip)} clips a cotangent on its way from part to part")
    return form
