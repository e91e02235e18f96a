"""Wrong arguments: numbers, names, options of gates, constants, JSON and names of cells."""

from __future__ import annotations

import math
import re

import pytest
import rnnc
from rnnc import constant, gate, param, state
from rnnc.cellspec.names import check_name


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.1", None, True])
def test_numbers_must_be_finite(value):
    for make in (constant, param, state):
        with pytest.raises(rnnc.CellError, match="a finite number"):
            make(value)
    with pytest.raises(rnnc.CellError, match="a finite number"):
        rnnc.cells.leaky_rate.with_constants(alpha=value)


@pytest.mark.parametrize("name", ["a__b", "d_h", "größe", "_x", "lambda", "h_next", "tanh", "_1"])
def test_suggested_names_are_free(name):
    with pytest.raises(rnnc.CellError) as caught:
        check_name(name, "gate")
    check_name(caught.value.write.split("`")[1], "gate")


def test_unknown_constant():
    with pytest.raises(rnnc.CellError, match=r"one of \['alpha'\]"):
        rnnc.cells.leaky_rate.with_constants(beta=1.0)
    with pytest.raises(rnnc.CellError, match="the cell has none"):
        rnnc.cells.lstm.with_constants(beta=1.0)


@pytest.mark.parametrize(
    "options", [{"input": 1}, {"recurrent": "dense"}, {"bias": None}, {"recurrent": 0}]
)
def test_gate_options(options):
    with pytest.raises(rnnc.CellError, match="True or False"):
        gate(**options)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("tanh(g)", "tanh(q)"), "unknown symbol `q`"),
        (("tanh(g)", "system(g)"), "the unknown function `system`"),
        (("tanh(g)", "tanh(g"), "column"),
        (("tanh(g)", "__import__('os')"), "at 'os'"),
        (("tanh(g)", "g.real"), "at g.real"),
        (('"name": "h"', '"name": "lambda"'), "keyword of Python"),
        (('"init": 0.0', '"init": NaN'), "finite"),
        (('"gates"', '"gate"'), "gates"),
        (("{", "["), "JSON"),
        (('["tanh(g)"]', "[true]"), "True as the new value"),
        (('["tanh(g)"]', "[[]]"), r"\[\] as the new value"),
        (('["tanh(g)"]', "[null]"), "None as the new value"),
        (('"updates"', '"shared": 5, "updates"'), "5 as the shared values"),
        (('"updates"', '"shared": null, "updates"'), "None as the shared values"),
        (('"recurrent": true', '"recurrent": 2'), r"2 as `gates\[0\].recurrent`\n.*diagonal"),
        (('"bias": true', f'"bias": "{100_000 * "x"}"'), r"xx… as `gates\[0\].bias`$"),
        (('"name": "g"', f'"name": "{100_000 * "x"}"'), "the unknown symbol `g`"),
        (('"init": 0.0', '"init": NaN'), "nan as the initial value of the state `h`"),
        (('"name": "elman"', f'"{100_000 * "x"}": 5'), "no field `name`, and one more"),
    ],
    ids=[f"case{number}" for number in range(19)],
)
def test_bad_json(change, found):
    text = rnnc.cells.elman.to_json()
    assert text.replace(*change) != text
    with pytest.raises(rnnc.CellError, match=f"(?m){found}") as caught:
        rnnc.Cell.from_json(text.replace(*change))
    assert re.fullmatch(r"[^/]*\n  found:  .+\n  wanted: .+\n  write:  .+", str(caught.value))
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("text", ["", "[]", "null", b"\xff", None, 5])
def test_what_is_no_json_of_a_cell(text):
    with pytest.raises(rnnc.CellError, match=r"cell.to_json\(\)"):
        rnnc.Cell.from_json(text)


def test_unknown_cell_of_the_library():
    with pytest.raises(AttributeError, match="write:  nas_cell"):
        _ = rnnc.cells.no_such_cell
