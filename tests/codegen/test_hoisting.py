"""What follows from params alone is taken out of a program, and nothing else."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import Constant, Gate, Param, State, constant, exp, gate, tanh, where
from rnnc.codegen.derive import derive
from rnnc.codegen.hoisting import hoisted
from rnnc.codegen.program import symbols_of, targets_of, values_of
from rnnc.codegen.shape import DIRECTIONS

from ..one_stage import ONE_STAGE


def parts_of(cell, direction):
    names = ([d.name for d in each] for each in (cell.params, cell.constants))
    return hoisted(derive(cell).program(direction), *names)


@rnnc.cell
def chosen(
    h: State,
    *,
    x: Gate = gate(recurrent=False),
    slope: Param,
    bound: Param,
    scale: Constant = constant(2.0),
):
    """A condition of params, a product with a constant, and a value that is used twice."""
    rate = scale * exp(-slope)
    return where(bound > slope, rate * h, tanh(x) + rate * exp(bound))


def test_largest_values_have_names_and_conditions_stay():
    parts = parts_of(chosen, "forward")
    assert str(parts.fixed) == "rate = scale*exp(-slope)\n_fixed_0 = rate*exp(bound)"
    assert parts.names == ("rate", "_fixed_0")
    assert str(parts.program) == (
        "tanh_x = tanh(x)\nh_next = where((bound > slope), rate*h, tanh_x + _fixed_0)"
    )


def test_values_that_only_others_need_are_no_results():
    parts = parts_of(rnnc.cells.lru, "forward")
    assert parts.names == ("a", "b", "exp_gamma")
    assert {"size", "exp_theta"} < {s.target.name for s in parts.fixed.statements}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", ONE_STAGE)
def test_the_rest_reads_what_is_given(name, direction):
    cell = rnnc.cells.get(name)
    program, parts = derive(cell).program(direction), parts_of(cell, direction)
    assert parts.program.outputs == program.outputs
    params = {param.name for param in cell.params}
    given = {symbol.name for symbol in symbols_of(values_of(parts.fixed.statements))}
    given -= {statement.target.name for statement in parts.fixed.statements}
    assert given <= params | {number.name for number in cell.constants}
    if not params:
        assert parts.program.statements == program.statements
        assert parts.fixed.statements == ()
    named = (*parts.program.inputs, *targets_of(parts.program.statements))
    known = {symbol.name for symbol in named} | {number.name for number in cell.constants}
    assert {s.name for s in symbols_of(values_of(parts.program.statements))} <= known
