"""Which lines a term of the equations became: replacing it changes these lines and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from rnnc.cellspec.expression.graph import rewritten
from rnnc.cellspec.expression.node import ordered
from rnnc.cellspec.functions import TABLE
from rnnc.codegen.derive import derive
from rnnc.codegen.source_terms import source_terms

# Names as long as those of the functions that they replace, and sorted like them: lines wrap and
# sums are ordered as before. A derivative differs in its numbers, so its lines differ too.
OTHERS = {
    "tanh": replace(TABLE["tanh"], name="tani", pullback=lambda d, y, x: (d * (2 - y**2),)),
    "sigmoid": replace(
        TABLE["sigmoid"], name="sigmoie", cpp="", pullback=lambda d, y, x: (d * y * (2 - y),)
    ),
    "exp": replace(TABLE["exp"], name="exq"),  # its derivative is its value
    "relu": replace(
        TABLE["relu"], name="relv", pullback=lambda d, y, x: (TABLE["where"].of(x <= 5, 0, d),)
    ),
}
# Where 1 - y is a term and a part of the derivative of y: one statement computes both.
SAME_DERIVATIVE = replace(TABLE["sigmoid"], name="sigmoif", cpp="")


@pytest.fixture(autouse=True)
def others():
    """The other functions, beside those whose place they take: sources have the table's order."""
    rows = dict(TABLE)
    more = [(row, OTHERS.get(name, row), SAME_DERIVATIVE) for name, row in rows.items()]
    TABLE.clear()
    TABLE.update({row.name: row for each in more for row in each})
    yield
    TABLE.clear()
    TABLE.update(rows)


def sources(cell):
    return (cell.cpp(), *cell.cuda(head_dim=32).units)


def with_other(cell, term):
    """The cell with another function in place of one term's."""
    shared = 1 - term in ordered(cell.updates)
    other = (SAME_DERIVATIVE if shared else OTHERS[term.name]).node(*term.args)
    return cell.model_copy(update={"updates": tuple(rewritten(cell.updates, {term: other}))})


def changed(cell, term):
    """The numbers of the lines that differ if a term is another function, per source."""
    for before, after in zip(sources(cell), sources(with_other(cell, term)), strict=True):
        lines, news = before.code.split("\n"), after.code.split("\n")
        yield {i for i, pair in enumerate(zip(lines, news, strict=True)) if pair[0] != pair[1]}


@pytest.mark.parametrize("name", ["lstm", "gru", "elman", "slstm", "peephole_lstm", "irnn", "cfn"])
def test_another_function_changes_exactly_the_lines_of_its_term(name):
    cell = rnnc.cells.get(name)
    terms = [n for n in ordered(cell.updates) if n.op == "call" and n.name in OTHERS]
    assert terms
    for term in terms:
        lit = [
            {i for i, found in enumerate(source_terms(derive(cell), source)) if term in found}
            for source in sources(cell)
        ]
        assert lit == list(changed(cell, term)), str(term)
        assert all(lit)
