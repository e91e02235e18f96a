"""Wrong calls of gates and wrong reductions: each error says what to write, and that works."""

from __future__ import annotations

import re

import pytest
import rnnc
from rnnc import (
    Constant,
    Gate,
    Input,
    Param,
    State,
    constant,
    gate,
    largest,
    layer_norm,
    mean,
    repeat,
    rms_norm,
    softmax,
    tanh,
    total,
    where,
)


def error(function) -> rnnc.CellError:
    with pytest.raises(rnnc.CellError) as caught:
        rnnc.cell(function)
    assert re.match(r"\w+, .*test_errors\.py:\d+$", str(caught.value).splitlines()[0])
    return caught.value


def lines_of(text: str, function) -> list[int]:
    """The lines of this file that a text names, counted from that of a function."""
    first = function.__code__.co_firstlineno
    return [int(line) - first for line in re.findall(r"test_errors\.py:(\d+)", text)]


def test_a_called_gate_with_a_source_has_both_lines():
    def wrong(
        h: State,
        n: Gate = gate(source="h"),
    ):
        return tanh(n(2 * h))

    found = error(wrong)
    assert re.fullmatch("a call of the gate `n` at .*, whose source is 'h' at .*", found.found)
    assert lines_of(found.found, wrong) == [4, 2]
    assert found.write == "n: Gate, without source="

    def right(h: State, n: Gate):
        return tanh(n(2 * h))

    assert rnnc.cell(right).called == ("n",)


def test_a_called_gate_without_weights_has_both_lines():
    def wrong(h: State, n: Gate = gate(recurrent=False)):
        return tanh(n(2 * h))

    found = error(wrong)
    assert re.fullmatch("a call of the gate `n` at .*, .*: recurrent=False at .*", found.found)
    assert lines_of(found.found, wrong) == [1, 0]
    assert found.write == 'n: Gate, or n: Gate = gate(recurrent="diagonal")'

    def right(h: State, n: Gate = gate(recurrent="diagonal")):
        return tanh(n(2 * h))

    assert [p.source for p in rnnc.cell(right).diagonal_pairs] == ["n()"]


def test_a_gate_called_twice_has_both_lines():
    def wrong(h: State, n: Gate):
        first = n(2 * h)
        return first + n(3 * h)

    found = error(wrong)
    assert lines_of(found.found, wrong) == [1, 2]
    assert "n_2: Gate = gate(input=False)" in found.write

    def right(h: State, n: Gate, n_2: Gate = gate(input=False)):
        first = n(2 * h)
        return first + n_2(3 * h)

    assert rnnc.cell(right).called == ("n", "n_2")


def test_a_gate_used_as_a_value_and_called_has_both_lines():
    def value_first(h: State, n: Gate):
        y = tanh(n)
        return y + n(2 * h)

    def call_first(h: State, n: Gate):
        y = n(2 * h)
        return y + n

    for wrong, lines in ((value_first, [1, 2]), (call_first, [2, 1])):
        found = error(wrong)
        assert found.found.startswith("the gate `n` used as a value at ")
        assert lines_of(found.found, wrong) == lines
        assert found.write == "y = n(…), and y in both places"

    def right(h: State, n: Gate):
        y = n(2 * h)
        return y + tanh(y)

    assert rnnc.cell(right).called == ("n",)


@pytest.mark.parametrize(
    "step",
    [
        lambda n, v: n(v),
        lambda n, v: tanh(mean(v)) + 0 * n,
        lambda n, v: layer_norm((v, n))[0],
    ],
)
def test_nothing_of_other_units_in_a_loop(step):
    def wrong(h: State, n: Gate):
        return repeat(3, lambda v: step(n, v), h)

    found = error(wrong)
    assert found.found.endswith("inside the step of repeat")
    assert found.write == "the call before or after the loop, or the passes written out"

    def right(h: State, n: Gate):
        return step(n, repeat(3, tanh, 2 * h))

    assert rnnc.cell(right).has_stages


def test_a_value_of_a_reduction_may_enter_a_loop():
    """Also one of a condition, which is else computed in each pass."""

    def cell(g: Gate, h: State):
        normed = layer_norm(where(g > h, g, h))
        return repeat(3, lambda v: tanh(v + normed), h)

    made = rnnc.cell(cell)
    assert made.equations()[1:3] == (
        "normed = layer_norm(where((g > h), g, h))",
        "repeat 3 times, from t0 = h:",
    )
    assert rnnc.Cell.from_json(made.to_json()) == made


def test_a_state_that_is_called():
    def wrong(g: Gate, h: State):
        return h(2 * g)

    found = error(wrong)
    assert found.found == "a call of the state `h`, with `2*g`"
    assert found.write == "n: Gate = gate(input=False) in the signature, and n(2*g)"

    def right(g: Gate, h: State, n: Gate = gate(input=False)):
        return n(2 * g) + h

    assert rnnc.cell(right).called == ("n",)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda n, h: n(), "n()"),
        (lambda n, h: n(h, 2 * h), "n(`h`, `2*h`)"),
        (lambda n, h: n(x=h), "n(x=…)"),
    ],
)
def test_a_gate_takes_one_value(call, found):
    def wrong(h: State, n: Gate):
        return call(n, h)

    assert error(wrong).found == found
    assert error(wrong).wanted == "one value, which the gate's matrix multiplies"


def test_an_argument_that_never_changes():
    def number(h: State, n: Gate):
        return n(1.5) + h

    def constant_(h: State, n: Gate, k: Constant = constant(2.0)):
        return n(2 * k) + h

    def param(h: State, n: Gate, w: Param):
        return n(tanh(w)) + h

    for wrong, argument in ((number, "1.5"), (constant_, "2*k"), (param, "tanh(w)")):
        assert error(wrong).found == f"n({argument})"

    def right(h: State, n: Gate, w: Param, x: Input):
        return n(tanh(w) * x) + h

    assert rnnc.cell(right).called == ("n",)


@pytest.mark.parametrize(
    ("call", "found", "write"),
    [
        (lambda g, h: mean(2.0), "mean(2.0)", "the number itself"),
        (lambda g, h: largest(2), "largest(2)", "the number itself"),
        (lambda g, h: total(2.0), "total(2.0)", "total(1 + 0 * h), the number of units"),
        (lambda g, h: softmax(1.0), "softmax(1.0)", "softmax(0 * h), one over the number"),
        (lambda g, h: layer_norm(1.0), "layer_norm(1.0)", "0, which is the norm"),
        (lambda g, h: rms_norm((g, 1.0))[0], "rms_norm((`g`, 1.0))", "1, which is the norm"),
        (lambda g, h: layer_norm(()), "layer_norm(())", "layer_norm(h)"),
        (lambda g, h: mean(g > h), "the condition `g > h` in arithmetic", "where(g > h, 1, 0)"),
        (lambda g, h: rms_norm((g, g > h)), "the condition `g > h`", "where(g > h, 1, 0)"),
        (lambda g, h: mean((g, h)), "mean((`g`, `h`))", "mean(g), mean(h)"),
        (lambda g, h: softmax("g"), "'g' inside the equations", "a learned value as w: Param"),
        (lambda g, h: layer_norm(g, eps=-1), "layer_norm with eps=-1", "eps=1e-5"),
        (lambda g, h: layer_norm(g, eps=h), "layer_norm with eps=`h`", "eps=1e-5"),
        (lambda g, h: rms_norm(g, eps=float("nan")), "rms_norm with eps=nan", "eps=1e-5"),
        (lambda g, h: layer_norm(g, (h, h)), "layer_norm of 1 value(s) with 2 for gain", "gain="),
        (
            lambda g, h: layer_norm((g, h), gain=2.0),
            "layer_norm of 2 value(s) with 1 for gain",
            "gain=(gain_0, gain_1), each a Param",
        ),
        (
            lambda g, h: layer_norm((g, h), bias=(1, 2, 3)),
            "layer_norm of 2 value(s) with 3 for bias",
            "bias=(bias_0, bias_1), each a Param",
        ),
        (lambda g, h: layer_norm(g, g > h), "the condition `g > h`", "where(g > h, "),
        (lambda g, h: mean(), "mean with 0 argument(s)", "mean(x)"),
        (lambda g, h: mean(g, h), "mean with 2 argument(s)", "mean(x)"),
        (lambda g, h: layer_norm(g, weight=h), "no argument 'weight'", "layer_norm(x, gain=None"),
    ],
)
def test_wrong_reductions(call, found, write):
    def wrong(g: Gate, h: State):
        return call(g, h) + g + h

    assert error(wrong).found.startswith(found)
    assert error(wrong).write.startswith(write)


def test_the_advised_reductions_of_numbers_work():
    def right(g: Gate, h: State, gain_0: Param, gain_1: Param):
        a, b = layer_norm((g, h), gain=(gain_0, gain_1), eps=1e-5)
        return a + b + total(1 + 0 * h) + softmax(0 * h)

    assert rnnc.cell(right).has_stages


def test_a_function_that_an_argument_hides():
    def wrong(mean: Gate, h: State):
        return mean(h * 2)

    assert (
        error(wrong).found == "a call of `mean`, with `h*2`: here `mean` is an argument of the cell"
    )
    assert error(wrong).write.startswith("rnnc.mean(…), or another name")

    def right(mean: Gate, h: State):
        return rnnc.mean(mean) + h

    assert rnnc.cell(right).equations()[-1] == "h' = mean(mean) + h"


def test_a_product_by_an_operator_is_a_called_gate():
    def wrong(w: Param, h: State, g: Gate):
        return tanh(g + w @ h)

    assert error(wrong).write == "n: Gate = gate(input=False) in the signature, and n(h)"

    def right(h: State, g: Gate, n: Gate = gate(input=False)):
        return tanh(g + n(h))

    assert [p.source for p in rnnc.cell(right).dense_pairs] == ["h", "h"]


def test_a_source_that_is_a_function_is_a_called_gate():
    with pytest.raises(rnnc.CellError) as caught:
        gate(source=lambda r, h: r * h)
    assert "for a value of this step gate() and a call in the body, n(r * h)" in caught.value.write


def test_a_function_that_nobody_imported():
    def wrong(g: Gate, h: State):
        return tanh(g) + replace_gradient(h, g, 1)  # noqa: F821

    assert error(wrong).write == "from rnnc import replace_gradient"
