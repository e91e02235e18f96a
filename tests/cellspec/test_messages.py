"""Every wrong cell raises an error with its place, what was found, wanted and what to write."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import rnnc
import torch
from rnnc import Constant, Gate, Param, State, constant, gate, sigmoid, state, tanh, where

ELSEWHERE = torch.nn.Parameter(torch.tensor(0.5))


LEAKED = []


def message(function) -> str:
    with pytest.raises(rnnc.CellError) as caught:
        rnnc.cell(function)
    text = str(caught.value)
    lines = text.splitlines()
    assert re.match(rf"{function.__name__}, .*test_messages\.py:\d+$", lines[0]), text
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["found", "wanted", "write"]
    return text


def line_of(text: str) -> int:
    return int(text.splitlines()[0].rsplit(":", 1)[1])


def no_state(g: Gate):
    return tanh(g)


def state_not_returned(g: Gate, h: State, c: State):
    return tanh(g)


def too_many_returned(g: Gate, h: State):
    return tanh(g), h


def state_returned_twice(g: Gate, h: State, c: State):
    h = tanh(g)
    return h, h


def nothing_returned(g: Gate, h: State):
    tanh(g)


def unknown_name(g: Gate, h: State):
    return tanh(g) * alpha  # noqa: F821


def captured_tensor(g: Gate, h: State):
    return tanh(g) * ELSEWHERE


def leak(g: Gate, h: State):
    LEAKED.append(h)
    return tanh(g)


def captured_symbol(g: Gate, h: State):
    return tanh(g) * LEAKED[0]


def captured_declaration(g: Gate, h: State):
    return tanh(g) * gate()


def forgotten_import(g: Gate, h: State):
    return silu(g)  # noqa: F821


def torch_functional_call(g: Gate, h: State):
    return torch.nn.functional.dropout(g)


def branch(g: Gate, h: State):
    if g > 0:
        return h
    return tanh(g)


def truth(g: Gate, h: State):
    return tanh(g) if h else g


def chained(g: Gate, h: State):
    return where(0 < g < 1, g, h)


def builtin_max(g: Gate, h: State):
    return max(g, h)


def loop(g: Gate, h: State):
    return sum(x for x in h)


def index(g: Gate, h: State):
    return h[0] * g


def math_call(g: Gate, h: State):
    return math.tanh(g)


def torch_call(g: Gate, h: State):
    return torch.tanh(g)


def numpy_call(g: Gate, h: State):
    return np.tanh(g)


def method_call(g: Gate, h: State):
    return g.tanh()


def matrix_product(g: Gate, h: State):
    return g @ h


def modulo(g: Gate, h: State):
    return g % 2


def float_power(g: Gate, h: State):
    return g**0.3


def division_by_zero(g: Gate, h: State):
    return g / 0


def infinite_number(g: Gate, h: State):
    return g * math.inf


def not_a_condition(g: Gate, h: State):
    return where(g, g, h)


def wrong_count(g: Gate, h: State):
    return sigmoid(g, h)


def double_underscore(a__b: Gate, h: State):
    return tanh(a__b)


def leading_underscore(_g: Gate, h: State):
    return tanh(_g)


def table_name(tanh: Gate, h: State):
    return sigmoid(tanh)


def gradient_name(d_h: Gate, h: State):
    return sigmoid(d_h)


def next_name(h_next: Gate, h: State):
    return sigmoid(h_next)


def unicode_name(größe: Gate, h: State):
    return tanh(größe)


def unused_gate(g: Gate, k: Gate, h: State):
    return tanh(g)


def unused_param(g: Gate, h: State, w: Param):
    return tanh(g)


def unused_constant(g: Gate, h: State, alpha: Constant = constant(0.1)):
    return tanh(g)


def empty_gate(g: Gate, h: State, k: Gate = gate(input=False, recurrent=False)):
    return tanh(g) * k


def source_without_product(g: Gate, h: State, k: Gate = gate(recurrent=False, source="h")):
    return tanh(g) * k


def source_that_is_no_state(g: Gate, h: State, k: Gate = gate(source="g")):
    return tanh(g) * k


def source_twice(g: Gate, h: State, k: Gate = gate(source=("h", "h"))):
    return tanh(g) * k


def constant_without_value(g: Gate, h: State, alpha: Constant):
    return alpha * tanh(g)


def wrong_default(g: Gate, h: State, w: Param = state()):
    return w * tanh(g)


def no_annotation(g, h: State):
    return tanh(g)


def wrong_annotation(g: float, h: State):
    return tanh(g)


def star_arguments(g: Gate, h: State, *rest: Gate):
    return tanh(g)


@pytest.mark.parametrize(
    ("function", "found", "write"),
    [
        (no_state, "no state", "h: State"),
        (state_not_returned, "no value for the state `c`", "return h, c"),
        (too_many_returned, "2 returned values for 1 state(s)", "return h"),
        (state_returned_twice, "returned twice, for the states `h` and `c`", "return h, c"),
        (nothing_returned, "a function that returns nothing", "return h"),
        (unknown_name, "the unknown name `alpha`", "alpha: Gate, State, Input, Param or Constant"),
        (captured_tensor, "a Parameter inside the equations", "w: Param"),
        (captured_declaration, "Gate(name=''", "w: Param"),
        (forgotten_import, "the unknown name `silu`", "from rnnc import silu"),
        (torch_functional_call, "a call of torch.dropout", "there is no dropout among them"),
        (branch, "a Python decision", "where(condition, a, b)"),
        (truth, "a Python decision", "where(condition, a, b)"),
        (chained, "a Python decision", "& and | join conditions"),
        (builtin_max, "a Python decision", "maximum(a, b)"),
        (loop, "used as a sequence", "arithmetic within one unit"),
        (index, "used as a sequence", "arithmetic within one unit"),
        (math_call, "turned into a Python number", "from rnnc import tanh"),
        (torch_call, "a call of torch.tanh", "from rnnc import tanh"),
        (numpy_call, "a call of numpy.tanh", "from rnnc import tanh"),
        (method_call, "the attribute .tanh", "from rnnc import tanh"),
        (matrix_product, "an operator", "n: Gate = gate(input=False)"),
        (modulo, "an operator", "where(x >= m, x - m, x)"),
        (float_power, "`g` ** 0.3", "exp(0.3 * log(g))"),
        (division_by_zero, "`g` / 0", "another divisor"),
        (infinite_number, "the number inf", "a large number such as 1e30"),
        (not_a_condition, "as the condition of where", "where(x > 0, a, b)"),
        (wrong_count, "sigmoid with 2 argument(s)", "sigmoid(x)"),
        (double_underscore, "`a__b`, whose double underscore", "another name"),
        (leading_underscore, "`_g`, which is not an ASCII identifier", "`g`"),
        (table_name, "`tanh`, which is a function of the language", "`tanh_gate`"),
        (gradient_name, "`d_h`, whose prefix d_ means a gradient", "another name"),
        (next_name, "`h_next`, whose ending _next", "another name"),
        (unicode_name, "`größe`, which is not an ASCII identifier", "another name"),
        (unused_gate, "the gate `k`, which no state's new value uses", "without `k`"),
        (unused_param, "the param `w`, which no state's new value uses", "without `w`"),
        (unused_constant, "the constant `alpha`, which no state's new", "without `alpha`"),
        (empty_gate, "input=False and recurrent=False, which leaves it empty", "k: Param"),
        (source_without_product, "a source but recurrent=False", "gate(recurrent=False)"),
        (source_that_is_no_state, "source 'g', which is not a state", "gate(source='h')"),
        (source_twice, "source 'h' named 2 times", "gate(source='h')"),
        (constant_without_value, "the constant `alpha` without a value", "= constant(0.1)"),
        (wrong_default, "`w: Param` with the default State", "w: Param = param()"),
        (no_annotation, "`g` with no annotation", "g: Gate"),
        (wrong_annotation, "the annotation <class 'float'>", "g: Gate"),
        (star_arguments, "the argument *rest", "rest: Gate"),
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_message(function, found, write):
    text = message(function)
    assert found in text.splitlines()[1], text
    assert write in text.splitlines()[3], text


def test_a_symbol_of_another_cell_is_refused():
    rnnc.cell(leak)
    assert "the symbol h of another cell, 'leak'" in message(captured_symbol)


def test_the_line_is_the_author_s():
    code = branch.__code__
    assert line_of(message(branch)) == code.co_firstlineno + 1
    assert line_of(message(no_state)) == no_state.__code__.co_firstlineno


def test_options_wrong_in_themselves_name_their_line():
    with pytest.raises(rnnc.CellError, match=r"^.*test_messages\.py:\d+\n"):
        constant(math.nan)
    with pytest.raises(rnnc.CellError, match=r'^.*test_messages\.py:\d+\n(.*\n)*.*"diagonal"'):
        gate(recurrent="diag")
