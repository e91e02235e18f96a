"""How many exchanges between units a step has, and what belongs to each."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import Gate, Input, State, gate, layer_norm, mean, tanh, total


def exchanges(function) -> list[list[str]]:
    return [[str(node) for node in each] for each in rnnc.cell(function).levels.exchanges]


def test_a_cell_of_one_stage():
    def cell(g: Gate, h: State):
        return tanh(g) + h

    assert exchanges(cell) == [[]]
    assert rnnc.cell(cell).levels.further == 0


def test_a_cell_without_any_exchange():
    assert rnnc.cells.indrnn.levels.exchanges == ()
    assert rnnc.cells.indrnn.levels.further == 0


def test_an_argument_of_states_alone_belongs_to_the_first_exchange():
    def cell(n: Gate, g: Gate, h: State, c: State, x: Input):
        return n(h * c * x) + g + mean(h), total(c) + x

    assert exchanges(cell) == [["n(h*c*x)", "mean(h)", "total(c)"]]
    assert rnnc.cell(cell).levels.further == 0
    assert rnnc.cell(cell).has_stages


def test_gates_and_reductions_that_need_the_same_share_an_exchange():
    def cell(a: Gate, b: Gate, g: Gate, h: State):
        return a(g * h) + b(tanh(g)) + mean(g)

    assert exchanges(cell) == [[], ["a(g*h)", "b(tanh(g))", "mean(g)"]]


def test_a_chain_has_one_for_each_of_its_links():
    def cell(a: Gate, b: Gate, g: Gate, h: State):
        return b(layer_norm(a(g * h)))

    assert exchanges(cell) == [
        [],
        ["a(g*h)"],
        ["layer_norm(a(g*h))"],
        ["b(layer_norm(a(g*h)))"],
    ]
    assert rnnc.cell(cell).levels.further == 3


def test_values_normed_together_are_one():
    def cell(a: Gate, b: Gate, h: State):
        first, second = layer_norm((a, b))
        return tanh(first) * second + h

    assert exchanges(cell) == [[], ["layer_norm((a, b))"]]


def test_a_diagonal_gate_that_is_called_costs_nothing():
    def cell(g: Gate, h: State, n: Gate = gate(recurrent="diagonal")):
        return n(tanh(g)) + h

    assert exchanges(cell) == [[]]
    assert rnnc.cell(cell).has_stages


@pytest.mark.parametrize(("name", "further"), [("gru", 1), ("norm_lstm", 2), ("deep", 4)])
def test_further_exchanges(name, further, staged_cells):
    assert staged_cells.TWINS[name][0].levels.further == further
