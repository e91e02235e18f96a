"""Every wrong cell raises an error with its place, what was found, wanted and what to write."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import rnnc
import torch
from rnnc import (
    Constant,
    Gate,
    Param,
    State,
    constant,
    fmod,
    gate,
    remainder,
    sigmoid,
    state,
    tanh,
    where,
)

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


def floor_division(g: Gate, h: State):
    return g // 2


def infinite_power(g: Gate, h: State):
    return g ** float("inf")


def power_that_is_no_number(g: Gate, h: State):
    return g ** float("nan")


def power_of_text(g: Gate, h: State):
    return g ** "2"


def power_with_a_remainder(g: Gate, h: State):
    return pow(g, 2, 3)


def quotient_and_remainder(g: Gate, h: State):
    return divmod(g, 2)


def remainder_of_zero(g: Gate, h: State):
    return g % 0


def remainder_by_name(g: Gate, h: State):
    return remainder(g, b=0.0)


def fmod_of_zero(g: Gate, h: State):
    return fmod(g, 0)


def assigned_item(g: Gate, h: State):
    h[0] = g
    return h


def deleted_item(g: Gate, h: State):
    del h[0]
    return g


def numpy_where(g: Gate, h: State):
    return np.where(g > 0, g, h)


def called_gate(g: Gate, h: State):
    return g(2 * h) + g


def called_value(g: Gate, h: State):
    return (g + h)(h, 2)


def called_condition(g: Gate, h: State):
    return (g > 0)(g, h)


def hidden_function(floor: Gate, h: State):
    return floor(h)


def hidden_builtin(g: Gate, round: State):
    return round(g)


def unknown_keyword(g: Gate, h: State):
    return rnnc.clip(g, lower=-1, high=1)


def unknown_keyword_of_python(g: Gate, h: State):
    return round(g, decimals=1)


def unknown_keyword_of_a_helper(g: Gate, h: State):
    def mix(a, b):
        return a + b

    return mix(g, c=h)


def context(g: Gate, h: State):
    with g:
        return h


def shifted_condition(g: Gate, h: State):
    return (g > 0) << 1


def private_attribute(g: Gate, h: State):
    return g._version * h


def three_of_a_condition(g: Gate, h: State):
    return pow(g > 0, 2, 3)


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
        (floor_division, "an operator", "floor(x / y)"),
        (infinite_power, "the number inf", "a large number such as 1e30"),
        (power_that_is_no_number, "the number nan", "a large number such as 1e30"),
        (power_of_text, "'2' inside the equations", "alpha: Constant = constant(0.1)"),
        (power_with_a_remainder, "pow(`g`, 2, 3)", "g**2 % 3"),
        (quotient_and_remainder, "divmod(`g`, 2)", "floor(x / y) and x % y"),
        (remainder_of_zero, "`g` % 0", "another divisor"),
        (remainder_by_name, "0 as the divisor of remainder", "another divisor"),
        (fmod_of_zero, "0 as the divisor of fmod", "another divisor"),
        (assigned_item, "used as a sequence", "arithmetic within one unit"),
        (deleted_item, "used as a sequence", "arithmetic within one unit"),
        (numpy_where, "a call of numpy.where", "from rnnc import where, and where(condition"),
        (called_gate, "the gate `g` used as a value", "y = g(…), and y in both places"),
        (called_value, "a call of `g + h`, with `h`, 2", "a * b, for a product of two values"),
        (called_condition, "a call of the condition `g > 0`", "where(g > 0, g, h)"),
        (hidden_function, "here `floor` is an argument of the cell", "rnnc.floor(…), or another"),
        (hidden_builtin, "here `round` is an argument of the cell", "rnnc.round(…), or another"),
        (unknown_keyword, "no argument 'lower' of clip", "clip(x, low, high)"),
        (unknown_keyword_of_python, "TypeError: 'decimals' is", "an expression of those"),
        (unknown_keyword_of_a_helper, "got an unexpected keyword", "an expression of those"),
        (context, "TypeError: 'Tracer' object does not", "an expression of those"),
        (shifted_condition, "the condition `g > 0` in arithmetic", "where(g > 0, 1, 0)"),
        (private_attribute, "AttributeError: _version", "an expression of those"),
        (three_of_a_condition, "the condition `g > 0` in arithmetic", "where(g > 0, 1, 0)"),
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


def test_an_error_of_the_author_s_own_stays_what_it_is():
    def own(g: Gate, h: State):
        raise ValueError("not yet")

    with pytest.raises(ValueError, match="not yet"):
        rnnc.cell(own)


@pytest.mark.parametrize("function", [called_gate, context, assigned_item, unknown_keyword])
def test_a_bare_error_of_python_names_its_line(function):
    first = function.__code__.co_firstlineno
    assert line_of(message(function)) == first + 1


def test_what_a_hidden_function_is_told_works():
    def followed(floor: Gate, round: State):
        return rnnc.floor(floor) + rnnc.round(round)

    assert str(rnnc.cell(followed).updates[0]) == "floor(floor) + round(round)"
