"""`rnnc check` confirms the forms of a recurrence at random points, and finds a wrong one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from rnnc import Gate, Param, State, gate, maximum, sigmoid, where
from rnnc.cellspec.expression.node import number
from rnnc.verify.recurrence import wrong_parts


@rnnc.cell
def pair(
    h: State,
    c: State,
    w: Param,
    *,
    a: Gate = gate(recurrent=False),
    g: Gate = gate(recurrent="diagonal", source=("h", "c")),
):
    return where(a > 0, w * h - c, (c + a) / (1 + w * w)) + a, sigmoid(a) * g - h


@rnnc.cell
def largest(m: State, *, a: Gate = gate(recurrent=False), b: Gate = gate(recurrent=False)):
    return maximum(m - a, b) + a


@pytest.mark.parametrize("cell", [pair, largest], ids=lambda cell: cell.name)
def test_the_forms_have_the_values_of_the_equations(cell):
    assert cell.recurrence.kind == "affine"
    assert wrong_parts(cell) == ()


@pytest.mark.parametrize("name", ["hgrn", "qrnn", "sru", "lstm"])
def test_the_library_is_confirmed(name):
    assert wrong_parts(rnnc.cells.get(name)) == ()


@pytest.mark.parametrize("row", [0, 1])
def test_a_wrong_coefficient_is_found(row, monkeypatch):
    recurrence = pair.recurrence
    (part,) = recurrence.parts
    matrix = [list(entries) for entries in part.matrix]
    matrix[row][1] = matrix[row][1] + number(1e-6)
    wrong = replace(part, matrix=tuple(map(tuple, matrix)))
    monkeypatch.setitem(pair.__dict__, "recurrence", replace(recurrence, parts=(wrong,)))
    (found,) = wrong_parts(pair)
    assert found.startswith(f"{part.states[row]} differs by ")


def test_a_wrong_bound_is_found(monkeypatch):
    recurrence = largest.recurrence
    (part,) = recurrence.parts
    other = replace(part.maximum, bound=part.maximum.bound + number(1e-6))
    wrong = replace(part, maximum=other)
    monkeypatch.setitem(largest.__dict__, "recurrence", replace(recurrence, parts=(wrong,)))
    assert wrong_parts(largest)
