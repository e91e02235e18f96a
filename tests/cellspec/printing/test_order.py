"""Equations come after those that they refer to."""

from __future__ import annotations

import re

import pytest
import rnnc
from rnnc import Gate, State, tanh
from rnnc.cellspec.printing.equations import equation_lines, equation_terms


@rnnc.cell
def shared(g: Gate, h: State, c: State):
    """A value that reads a new state stands between that state and the one that reads it."""
    early = tanh(0.5 * g + c)
    c = early * c + 0.25 * early
    late = tanh(c - 0.125 * early)
    return late * h + 0.75 * late * tanh(late), c


def test_a_value_that_reads_a_new_state_follows_it():
    assert shared.equations()[1:] == (
        "early = tanh(0.5*g + c)",
        "c' = early*c + 0.25*early",
        "late = tanh(c' - 0.125*early)",
        "h' = late*h + 0.75*late*tanh(late)",
    )
    left = [row.partition(" &")[0] for row in shared.latex().splitlines()[1:-1]]
    assert left == ["g_t", "early", "c_t", "late", "h_t"]


def test_terms_are_those_of_the_lines():
    lines = dict(zip(equation_lines(shared), equation_terms(shared), strict=True))
    for line, terms in lines.items():
        assert ("tanh" in line) == any(term.op == "call" for term in terms)


@pytest.mark.parametrize("name", rnnc.cells.names())
def test_no_line_refers_to_a_later_one(name):
    known: set[str] = set()
    for line in rnnc.cells.get(name).equations():
        left, equals, right = line.strip().partition(" = ")
        if equals and not left.startswith("repeat"):
            assert set(re.findall(r"\b\w+'", right)) <= known
            known |= {part.strip() for part in left.split(",")}
