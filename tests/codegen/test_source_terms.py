"""Which lines a term of the equations became: replacing it changes these lines and no other.

A function is replaced by another one, and a product, a sum or a difference by a function of its
operands.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import SequenceMatcher

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

# A sum and a difference with the value and the derivative of the operation that they replace.
SUMS = {
    "+": replace(TABLE["maximum"], name="sumq", pullback=lambda d, y, a, b: (d, d)),
    "-": replace(TABLE["maximum"], name="diffq", pullback=lambda d, y, a, b: (d, -d)),
}
PRODUCT = replace(TABLE["maximum"], name="prodq", pullback=lambda d, y, a, b: (d * b, d * a))
# A product whose derivative names its parts.
KEPT = replace(TABLE["exp"], name="keptq")
NAMED_PRODUCT = replace(
    TABLE["maximum"],
    name="prodq",
    pullback=lambda d, y, a, b: (d * KEPT.of(b), d * KEPT.of(a)),
)
NAMES = re.compile(r"\b(prodq|keptq)")
CELLS = ("lstm", "gru", "ugrnn", "slstm", "peephole_lstm", "cfn")


@pytest.fixture(autouse=True)
def others():
    """The other functions, beside those whose place they take: sources have the table's order."""
    rows = dict(TABLE)
    more = [(row, OTHERS.get(name, row), SAME_DERIVATIVE) for name, row in rows.items()]
    TABLE.clear()
    TABLE.update({row.name: row for each in more for row in each})
    TABLE.update({row.name: row for row in (*SUMS.values(), KEPT)})
    yield
    TABLE.clear()
    TABLE.update(rows)


def sources(cell):
    return (cell.cpp(), *cell.cuda(head_dim=32).units)


def with_other(cell, term):
    """The cell with another function in place of one term's."""
    shared = 1 - term in ordered(cell.updates)
    other = (SAME_DERIVATIVE if shared else OTHERS[term.name]).node(*term.args)
    return exchanged(cell, term, other)


def exchanged(cell, term, other):
    """The cell with another node in place of a term, and the names of its values."""
    nodes, words = zip(*cell.variables, strict=True) if cell.variables else ((), ())
    fields = {
        "updates": tuple(rewritten(cell.updates, {term: other})),
        "variables": tuple(zip(rewritten(nodes, {term: other}), words, strict=True)),
    }
    return cell.model_copy(update=fields)


def lines_of(cell, term):
    """The numbers of the lines of a term, per source."""
    pointwise = derive(cell)
    return [
        {i for i, found in enumerate(source_terms(pointwise, source)) if term in found}
        for source in sources(cell)
    ]


def replaced(cell, term, function):
    """The cell with a function of the same operands in place of a term."""
    return exchanged(cell, term, function.node(*term.args))


def vanished(cell, other):
    """The numbers of the lines that the other cell's sources lack, without counts of operations."""
    for before, after in zip(sources(cell), sources(other), strict=True):
        lines, news = before.code.split("\n"), after.code.split("\n")
        blocks = SequenceMatcher(None, lines, news, autojunk=False).get_matching_blocks()
        same = {i for block in blocks for i in range(block.a, block.a + block.size)}
        counts = {i for i, line in enumerate(lines) if re.match(r"// \d+ operations? ", line)}
        yield set(range(len(lines))) - same - counts


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
        lit = lines_of(cell, term)
        assert lit == list(changed(cell, term)), str(term)
        assert all(lit)


@pytest.mark.parametrize("name", CELLS)
def test_another_sum_changes_exactly_the_lines_of_its_term(name):
    cell = rnnc.cells.get(name)
    for term in ordered(cell.updates):
        # 1 - sigmoid(z) is also a part of the sigmoid's derivative, which another function is not.
        if term.op in SUMS and not str(term).startswith("1 - sigmoid("):
            other = replaced(cell, term, SUMS[term.op])
            assert lines_of(cell, term) == list(vanished(cell, other)), str(term)


@pytest.mark.parametrize("name", CELLS)
def test_another_product_of_the_same_derivative_changes_only_lines_of_its_term(name):
    TABLE["prodq"] = PRODUCT
    cell = rnnc.cells.get(name)
    for term in ordered(cell.updates):
        if term.op == "*":
            lit = lines_of(cell, term)
            for own, gone in zip(lit, vanished(cell, replaced(cell, term, PRODUCT)), strict=True):
                assert gone <= own, str(term)
            # The forward has its value alone, and all of it.
            assert lit[1] == list(vanished(cell, replaced(cell, term, PRODUCT)))[1], str(term)


@pytest.mark.parametrize("name", CELLS)
def test_the_lines_of_a_product_are_those_of_its_value_and_of_its_derivative(name):
    TABLE["prodq"] = NAMED_PRODUCT
    cell = rnnc.cells.get(name)
    for term in ordered(cell.updates):
        if term.op == "*":
            other = replaced(cell, term, NAMED_PRODUCT)
            own = next(n for n in ordered(other.updates) if n.op == "call" and n.name == "prodq")
            named = [
                {i for i, line in enumerate(source.code.split("\n")) if re.search(NAMES, line)}
                for source in sources(other)
            ]
            assert lines_of(other, own) == named, str(term)
            assert all(named)
