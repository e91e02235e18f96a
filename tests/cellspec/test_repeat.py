"""`rnnc.repeat`: what a loop looks like as text and data, and what it refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import rnnc
from rnnc import Gate, Param, State, clip_gradient, sigmoid, sin, tanh, where
from rnnc.cellspec.expression.graph import everywhere
from rnnc.cellspec.expression.node import ordered
from rnnc.cellspec.printing.equations import equation_lines, equation_terms


def test_equations_show_the_loop(loop_cells):
    assert loop_cells.nested(rnnc.repeat, 4).equations() == (
        "g = x_g + R_g h + b_g",
        "t0 = w*g",
        "t1 = sigmoid(g)",
        "repeat 4 times, from t2 = h:",
        "  t3 = clip_gradient(w, 0.1)",
        "  repeat 3 times, from t4 = t2, t5 = t3:",
        "    t6 = tanh(t4 + t0)",
        "    t4, t5 = t5, t6",
        "  t2 = where((t4 > t5), t4, t5)*t1 + 0.1*clip_gradient(t4, 0.05)",
        "h' = tanh(t2)",
    )


def test_latex_shows_the_loop(loop_cells):
    rows = loop_cells.nested(rnnc.repeat, 4).latex().splitlines()
    assert r"&\text{4 times:} \\" in rows
    assert r"&\quad \text{3 times:} \\" in rows
    assert r"v_{4}, v_{5} &\quad \quad \leftarrow v_{5}, v_{6} \\" in rows


@pytest.mark.parametrize("name", ["neuron", "nested", "chained", "decaying", "spiking"])
def test_json_and_pickle_read_back_the_same_cell(name, loop_cells):
    cell = loop_cells.CELLS[name](rnnc.repeat, 5)
    again = rnnc.Cell.from_json(cell.to_json())
    assert again == cell
    assert again.updates == cell.updates
    assert (
        again.fingerprint == cell.fingerprint == loop_cells.CELLS[name](rnnc.repeat, 5).fingerprint
    )
    assert pickle.loads(pickle.dumps(cell)) == copy.deepcopy(cell) == cell
    assert pickle.loads(pickle.dumps(cell.updates)) == cell.updates
    assert cell.fingerprint != loop_cells.CELLS[name](rnnc.repeat, 6).fingerprint


@pytest.mark.parametrize("name", ["neuron", "nested", "chained", "decaying", "spiking"])
def test_each_line_has_its_terms(name, loop_cells):
    """Each call in an equation or in a body stands in some line."""
    cell = loop_cells.CELLS[name](rnnc.repeat, 5)
    lines, terms = equation_lines(cell), equation_terms(cell)
    assert len(lines) == len(terms)
    shown = {node for line in terms for node in line}
    calls = {node for node in everywhere(cell.updates) if node.op == "call"}
    assert calls <= shown


def test_text_does_not_grow_with_the_passes(loop_cells):
    short, long = loop_cells.neuron(rnnc.repeat, 2), loop_cells.neuron(rnnc.repeat, 65_536)
    assert len(long.to_json()) - len(short.to_json()) < 60
    assert len(ordered(long.updates)) == len(ordered(short.updates))
    assert len(long.cpp().code) < len(short.cpp().code) + 2000


def test_no_pass_and_one_pass(loop_cells):
    """The values themselves, and one call of the step."""
    assert (
        loop_cells.neuron(rnnc.repeat, 1).updates
        == loop_cells.neuron(loop_cells.unrolled, 1).updates
    )

    @rnnc.cell
    def none(g: Gate, h: State):
        return rnnc.repeat(0, tanh, h) + g

    @rnnc.cell
    def same(g: Gate, h: State):
        return h + g

    assert none.updates == same.updates


def test_numbers_of_numpy_and_of_python():
    def cell(passes):
        @rnnc.cell
        def counted(g: Gate, h: State):
            return rnnc.repeat(passes, lambda v: tanh(v + g), h)

        return counted

    assert cell(np.int32(4)) == cell(4) == cell(np.uint8(4))


def test_a_step_is_traced_once():
    calls = []

    def step(v):
        calls.append(v)
        return tanh(v)

    @rnnc.cell
    def traced(g: Gate, h: State):
        return rnnc.repeat(1000, step, h + g)

    assert len(calls) == 1
    assert traced.equations()[-1] == "h' = t1"


def test_what_no_pass_changes_is_computed_once():
    @rnnc.cell
    def before(g: Gate, h: State, w: Param):
        return rnnc.repeat(3, lambda v: v * (sigmoid(g) + w) + tanh(v), h)

    assert before.equations()[1:] == (
        "t0 = sigmoid(g) + w",
        "repeat 3 times, from t1 = h:",
        "  t1 = t1*t0 + tanh(t1)",
        "h' = t1",
    )


def test_a_value_behind_a_condition_is_computed_before_the_loop():
    """A pass that reads it does not run its loop again, so that what it clips is clipped once."""

    @rnnc.cell
    def chosen(h: State, v: State):
        start = where(h > 1, h, 1)
        first = rnnc.repeat(2, lambda a: sigmoid(clip_gradient(a, 0.3)), start)
        return rnnc.repeat(3, lambda a: where(h > 1, sin(a + first), a * start), v), first

    assert chosen.equations() == (
        "start = where((h > 1), h, 1)",
        "repeat 2 times, from t0 = start:",
        "  t0 = sigmoid(clip_gradient(t0, 0.3))",
        "v' = t0",
        "repeat 3 times, from t1 = v:",
        "  t1 = where((h > 1), sin(t1 + v'), t1*start)",
        "h' = t1",
    )


LEAKED = []


def leaks(v):
    LEAKED.append(v)
    return tanh(v)


def negative(g: Gate, h: State):
    return rnnc.repeat(-1, tanh, h + g)


def half(g: Gate, h: State):
    return rnnc.repeat(2.5, tanh, h + g)


def truth(g: Gate, h: State):
    return rnnc.repeat(True, tanh, h + g)


def too_many_passes(g: Gate, h: State):
    return rnnc.repeat(65_537, tanh, h + g)


def of_a_gate(g: Gate, h: State):
    return rnnc.repeat(g, tanh, h)


def no_function(g: Gate, h: State):
    return rnnc.repeat(3, g, h)


def no_value(g: Gate, h: State):
    return rnnc.repeat(3, lambda: h) + g


def too_few(g: Gate, h: State, c: State):
    return rnnc.repeat(3, lambda a, b: a + b + g, h, c)


def too_many(g: Gate, h: State):
    return rnnc.repeat(3, lambda v: (v, g), h)


def nothing(g: Gate, h: State):
    return rnnc.repeat(3, lambda v: None, h + g)


def outside(g: Gate, h: State):
    return rnnc.repeat(3, leaks, h + g) + LEAKED[-1]


def outside_of_the_inner(g: Gate, h: State):
    def outer(v):
        return rnnc.repeat(2, leaks, v) + LEAKED[-1]

    return rnnc.repeat(3, outer, h + g)


def condition_carried(g: Gate, h: State):
    return rnnc.repeat(3, lambda v: v, g > h)


def condition_returned(g: Gate, h: State):
    return rnnc.repeat(3, lambda v: v > g, h)


def numbers_alone(g: Gate, h: State):
    return rnnc.repeat(3, lambda v: v * 2, 1) + g + h


@pytest.mark.parametrize(
    ("function", "found", "write"),
    [
        (negative, "-1 as the number of passes", "repeat(50, step, h)"),
        (half, "2.5 as the number of passes", "repeat(50, step, h)"),
        (truth, "True as the number of passes", "repeat(50, step, h)"),
        (too_many_passes, "65537 as the number of passes", "repeat(50, step, h)"),
        (of_a_gate, "`g` as the number of passes", "where(i < n, new, v)"),
        (no_function, "`g` as the step of repeat", "repeat(n, lambda v:"),
        (no_value, "repeat without a value to carry", "repeat(3, step, h)"),
        (too_few, "1 value(s) returned by the step of repeat, which carries 2", "return v0, v1"),
        (too_many, "2 value(s) returned by the step of repeat, which carries 1", "return the new"),
        (nothing, "nothing returned by the step of repeat", "return the new"),
        (outside, "a value of a step of repeat used outside it", "the carried `v`"),
        (outside_of_the_inner, "a value of a step of repeat used outside it", "one more carried"),
        (condition_carried, "the condition `g > h` as a carried value", "where(g > h, 1, 0)"),
        (condition_returned, "the condition `v > g` as a carried value", "where(v > g, 1, 0)"),
        (numbers_alone, "repeat without a gate, state, param or constant", "computed by Python"),
    ],
)
def test_errors_name_what_was_found(function, found, write):
    with pytest.raises(rnnc.CellError) as caught:
        rnnc.cell(function)
    text = str(caught.value)
    assert f"found:  {found}" in text
    assert write in text
    assert text.startswith(f"{function.__name__}, ")


@pytest.mark.parametrize(
    "entry",
    [
        {"repeat": 1, "carried": ["t0"], "from": ["h"], "next": ["t0"]},
        {"repeat": 3, "carried": ["t0"], "from": ["h", "g"], "next": ["t0"]},
        {"repeat": 3, "carried": [], "from": [], "next": []},
        {"repeat": 3, "carried": ["t0"], "from": [1], "next": ["t0"]},
        {"repeat": "3", "carried": ["t0"], "from": ["h"], "next": ["t0"]},
    ],
)
def test_json_of_a_wrong_loop_is_refused(entry):
    fields = rnnc.cells.elman.model_dump(mode="json")
    with pytest.raises(rnnc.CellError):
        rnnc.Cell(**{**fields, "shared": [entry], "updates": ["tanh(g)"]})
