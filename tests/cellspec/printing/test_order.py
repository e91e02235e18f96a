"""Equations come after those that they refer to."""

from __future__ import annotations

import re

import pytest
import rnnc
from rnnc.cellspec.printing.equations import equation_lines, equation_terms


def test_a_value_that_reads_a_new_state_follows_it():
    assert rnnc.cells.adaptive_lif.equations()[1:] == (
        "a' = rho*a + z",
        "v' = alpha*v + i - threshold*z",
        "u = (v' - (threshold + beta*a'))/threshold",
        "z' = with_gradient(heaviside(u), stop_gradient(gamma*maximum(0, 1 - abs(u)))*u)",
    )
    rows = rnnc.cells.adaptive_lif.latex().splitlines()[1:-1]
    assert [row.partition(" &")[0] for row in rows] == ["i_t", "a_t", "v_t", "u", "z_t"]


def test_terms_are_those_of_the_lines():
    cell = rnnc.cells.adaptive_lif
    terms = dict(zip(equation_lines(cell), equation_terms(cell), strict=True))
    calls = [{term.name for term in line if term.op == "call"} for line in terms.values()]
    assert calls[:4] == [set()] * 4
    assert calls[4] >= {"with_gradient", "heaviside", "maximum", "abs"}


@pytest.mark.parametrize("name", rnnc.cells.names())
def test_no_line_refers_to_a_later_one(name):
    known: set[str] = set()
    for line in rnnc.cells.get(name).equations():
        left, equals, right = line.strip().partition(" = ")
        if equals and not left.startswith("repeat"):
            assert set(re.findall(r"\b\w+'", right)) <= known
            known |= {part.strip() for part in left.split(",")}
