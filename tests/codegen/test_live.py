"""How many values of a program are in use at once."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import Gate, State, sigmoid, tanh
from rnnc.codegen.derive import derive
from rnnc.codegen.live import live_values
from rnnc.codegen.shape import DIRECTIONS

from ..one_stage import ONE_STAGE


def test_straight_lines():
    """h' = tanh(g) has one value at a time; an LSTM's forward begins with its gates and c."""
    assert live_values(derive(rnnc.cells.elman).forward) == 1
    assert live_values(derive(rnnc.cells.lstm, activations=False).forward) == 5


def test_what_the_passes_read_lasts_for_all_of_them():
    @rnnc.cell
    def one(g: Gate, h: State):
        return rnnc.repeat(3, lambda v: tanh(v + g), h)

    @rnnc.cell
    def two(g: Gate, f: Gate, h: State):
        return rnnc.repeat(3, lambda v: tanh(v * sigmoid(f) + g), h)

    assert live_values(derive(one).forward) == 2
    assert live_values(derive(two).forward) == 3


# Later cells, which compute coefficients from their params.
MORE = {"lru", "rg_lru", "s5"}
STRAIGHT = [n for n in ONE_STAGE if n not in MORE and "repeat" not in str(rnnc.cells.get(n))]


@pytest.mark.parametrize("name", STRAIGHT)
def test_cells_of_the_library_have_no_more_than_the_bounds_were_fitted_to(name):
    for activations in (True, False):
        pointwise = derive(rnnc.cells.get(name), activations)
        assert [pointwise.extra_values(d) for d in DIRECTIONS] == [0, 0]


@pytest.mark.parametrize("name", sorted(MORE))
def test_coefficients_of_params_have_more(name):
    assert 0 < derive(rnnc.cells.get(name)).extra_values("backward") < 20


def test_a_loop_has_more(loop_cells):
    few, many = (derive(loop_cells.neuron(rnnc.repeat, n)) for n in (2, 1000))
    assert few.extra_values("backward") == many.extra_values("backward") > 0
