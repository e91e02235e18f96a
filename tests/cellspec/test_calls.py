"""Calls of functions that are no rows of the table, with wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest
import rnnc
from rnnc import Gate, State, replace_gradient, tanh, with_gradient


def refused(call) -> rnnc.CellError:
    """The error of a cell that makes a call of its gate and its state."""

    def wrong(g: Gate, h: State):
        return call(g, h) + g

    with pytest.raises(rnnc.CellError, match=r"^wrong, .*test_calls\.py:\d+\n") as caught:
        rnnc.cell(wrong)
    return caught.value


TWO, THREE = "with_gradient(value, of)", "replace_gradient(value, x, slope)"
MORE = "repeat(n, step, *values)"


@pytest.mark.parametrize(
    ("call", "found", "write"),
    [
        (lambda g, h: with_gradient(g, off=h), "no argument 'off' of with_gradient", TWO),
        (lambda g, h: with_gradient(g), "with_gradient with 1 argument(s)", TWO),
        (lambda g, h: with_gradient(g, h, h), "with_gradient with 3 argument(s)", TWO),
        (lambda g, h: with_gradient(g, value=h), "value given twice", TWO),
        (lambda g, h: replace_gradient(g, h, slop=2), "no argument 'slop' of replace_gradi", THREE),
        (lambda g, h: replace_gradient(g, h), "replace_gradient with 2 argument(s)", THREE),
        (lambda g, h: replace_gradient(), "replace_gradient with 0 argument(s)", THREE),
        (lambda g, h: replace_gradient(g, h, 1, 2), "replace_gradient with 4 argument(s)", THREE),
        (lambda g, h: replace_gradient(g, h, 1, slope=2), "slope given twice", THREE),
        (lambda g, h: rnnc.repeat(3), "repeat with 1 argument(s)", MORE),
        (lambda g, h: rnnc.repeat(3, tanh, v=h), "no argument 'v' of repeat", MORE),
        (lambda g, h: rnnc.repeat(3, tanh, n=h), "n given twice", MORE),
        (lambda g, h: replace_gradient(1, 2, 3), "replace_gradient(1, 2, 3)", "the value itself"),
        (lambda g, h: replace_gradient(g, "x", 2), "'x' inside the equations", "a learned value"),
        (lambda g, h: replace_gradient(g, h, None), "None inside the equations", "a number"),
        (lambda g, h: np.float64(h), "turned into a Python number", "from rnnc import"),
    ],
)
def test_a_wrong_call_names_its_line_and_what_to_write(call, found, write):
    error = refused(call)
    assert found in error.found
    assert error.write.startswith(write)
    assert error.where.endswith(f":{call.__code__.co_firstlineno}")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_condition_as_an_argument_becomes_a_number(place):
    def call(g, h, condition):
        given = [g, h, g * h]
        given[place] = condition
        return replace_gradient(*given)

    assert refused(lambda g, h: call(g, h, g > h)).write == "where(g > h, 1, 0)"

    def followed(g: Gate, h: State):
        return call(g, h, rnnc.where(g > h, 1, 0)) + g

    assert "where((g > h), 1, 0)" in rnnc.cell(followed).equations()[-1]


@pytest.mark.parametrize("values", [1, 2])
def test_a_step_takes_as_many_values_as_are_carried(values):
    error = refused(lambda g, h: rnnc.repeat(3, lambda a, b, c: a, *[h] * values))
    assert error.found.startswith("a step of repeat with the arguments (a, b, c)")
    names = ", ".join(f"v{place}" for place in range(values))
    assert error.write == f"def step({names}): …, or lambda {names}: …"
    step = eval(f"lambda {names}: ({names})")

    def followed(g: Gate, h: State):
        last = rnnc.repeat(3, step, *[g + h] * values)
        return last if values == 1 else last[0] + last[1]

    assert rnnc.cell(followed).states[0].name == "h"


@pytest.mark.parametrize("name", ["repeat", "replace_gradient"])
def test_a_state_may_hide_a_function_and_is_told_so_when_it_is_called(name):
    scope = {"rnnc": rnnc}
    signature = f"def c(g: rnnc.Gate, {name}: rnnc.State):\n"
    exec(f"{signature}    return {name}(3, tanh, g)", scope | {"tanh": tanh}, scope)
    with pytest.raises(rnnc.CellError, match=f"here `{name}` is an argument") as caught:
        rnnc.cell(scope["c"])
    assert caught.value.write.startswith(f"rnnc.{name}(…), or")
    arguments = "3, rnnc.tanh, g" if name == "repeat" else f"g, {name}, 2"
    exec(f"{signature}    return rnnc.{name}({arguments}) + {name}", scope, scope)
    assert rnnc.cell(scope["c"]).states[0].name == name


def test_three_arguments_of_a_power_without_the_author_s_file():
    scope = {"rnnc": rnnc}
    exec("def c(g: rnnc.Gate, h: rnnc.State):\n    return pow(2, g + h, 3)", scope)
    with pytest.raises(rnnc.CellError) as caught:
        rnnc.cell(scope["c"])
    assert (caught.value.found, caught.value.write) == ("pow(x, y, z)", "x**y % z")
