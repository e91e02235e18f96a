"""Check of the forms of a cell's recurrence: the values of its equations, at random points."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..cellspec.expression.node import Node, symbol
from ..cellspec.recurrence.analysis import diagonal_weights
from ..cellspec.recurrence.classify import Part
from ..cellspec.recurrence.sight import fed_by_states, unit_updates
from ..runtime.targets.reference import evaluate

_POINTS = 64
# Rounding of float64, as a share of the terms of a sum, stays far below this.
_TOLERANCE = 1e-9


def wrong_parts(cell: CellSpec) -> tuple[str, ...]:
    """Compare the affine parts of a cell's recurrence with its updates in float64.

    Returns:
        A line per state whose form has another value; empty if all agree.
    """
    like = torch.empty(_POINTS, dtype=torch.float64)
    point = _Point(cell, like)
    found = []
    for part in cell.recurrence.parts:
        if part.kind == "affine":
            for state, error in zip(part.states, _errors(point, part), strict=True):
                if not error <= _TOLERANCE:
                    found.append(f"{state} differs by {error:.1e}")
    return tuple(found)


class _Point:
    """Random values of all that a cell's updates read."""

    def __init__(self, cell: CellSpec, like: Tensor) -> None:
        self.cell, self.like = cell, like
        named = (*cell.gates, *cell.states, *cell.inputs, *cell.params)
        self._values = {declared.name: torch.randn_like(like) for declared in named}
        self._values |= {c.name: torch.full_like(like, c.value) for c in cell.constants}
        self._weights = {
            gate: diagonal_weights(cell, gate) for gate in {p.gate for p in fed_by_states(cell)}
        }
        weights = [w for by_state in self._weights.values() for w in by_state.values()]
        weights += [symbol(f"u_{gate}") for gate in cell.called]
        self._values |= {w.name: torch.randn_like(like) for w in weights}

    def of(self, roots: list[Node], without: tuple[str, ...] = ()) -> list[Tensor]:
        """Return the values of expressions, whose gates have no products with some states."""
        values = dict(self._values)
        for gate, by_state in self._weights.items():
            for state, weight in by_state.items():
                if state not in without:
                    values[gate] = values[gate] + values[weight.name] * values[state]
        return [v.expand_as(self.like) for v in evaluate(roots, values, self.like)]


def _errors(point: _Point, part: Part) -> Iterator[float]:
    """For each state of a part, the error of its form as a share of the form's terms."""
    news = dict(zip((s.name for s in point.cell.states), unit_updates(point.cell), strict=True))
    wanted = point.of([news[state] for state in part.states])
    for row, new in enumerate(wanted):
        terms = point.of(_terms(part, row), without=part.states)
        value = torch.stack(terms).amax(0) if part.maximum else torch.stack(terms).sum(0)
        size = 1 + torch.stack(terms).abs().sum(0)
        known = new.isfinite() & size.isfinite()  # where a function is not defined, neither is
        yield float(((value - new).abs() / size)[known].max()) if known.any() else 0.0


def _terms(part: Part, row: int) -> list[Node]:
    """The terms whose sum, or whose maximum, is a new value."""
    if part.maximum is not None:
        shift, bound = part.maximum.shift, part.maximum.bound
        moved = None if shift is None else symbol(part.states[0]) + shift
        return [node for node in (moved, bound) if node is not None]
    pairs = zip(part.matrix[row], part.states, strict=True)
    products = [coefficient * symbol(s) for coefficient, s in pairs if coefficient is not None]
    rest = part.offsets[row]
    return products if rest is None else [*products, rest]
