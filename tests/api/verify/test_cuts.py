"""`rnnc check` takes finite differences in parts where a gradient is meant to be no derivative."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import (
    Gate,
    Input,
    Param,
    State,
    clip_gradient,
    sigmoid,
    stop_gradient,
    tanh,
    where,
    with_gradient,
)
from rnnc.cellspec.functions import TABLE
from rnnc.verify.cuts import cut
from rnnc.verify.differences import finite_differences
from rnnc.verify.inputs import ordinary, run


@rnnc.cell
def spiking(g: Gate, q: Gate, s: State, v: State, held0: Param, dt: Input):
    """Cuts inside each other; `q` is behind a `stop_gradient` alone."""
    v = held0 * v * (1 - stop_gradient(s + q)) + g * dt
    s = with_gradient(where(v > 1, 1, 0), of=sigmoid(4 * clip_gradient(tanh(v - 1), 0.1)))
    return s, v - s


def test_a_cell_is_cut_at_each_gradient_of_its_own():
    found = cut(spiking, ordinary(spiking, batch=2, steps=3, heads=1, dim=2))
    assert found.cell.equations()[2:] == (
        "s' = held1",
        "part2' = q",
        "part0' = sigmoid(4*held3)",
        "v' = held0*v*(1 - held2) + g*dt - held1",
        "part1' = tanh(held0*v*(1 - held2) + g*dt - 1)",
    )
    assert found.shown["held2"] == "the value of stop_gradient(s + q)"
    assert found.shown["part2"] == "q"


def test_what_is_held_has_the_values_of_the_whole_cell():
    inputs = ordinary(spiking, batch=2, steps=3, heads=1, dim=2)
    found = cut(spiking, inputs)
    whole, _ = run(spiking, inputs, "reference")
    parts, _ = run(found.cell, found.inputs, "reference")
    for name, one, other in zip("sv", whole, parts, strict=False):
        assert torch.equal(one, other), name


def test_a_cell_without_such_gradients_stays_whole():
    inputs = ordinary(rnnc.cells.lstm, batch=1, steps=1, heads=1, dim=1)
    assert cut(rnnc.cells.lstm, inputs).cell is rnnc.cells.lstm


def test_finite_differences_agree():
    assert finite_differences(spiking) == ""


@pytest.mark.parametrize("name", ["neuron", "nested", "chained", "spiking"])
def test_finite_differences_agree_with_loops(name, loop_cells):
    assert finite_differences(loop_cells.CELLS[name](rnnc.repeat, 9)) == ""


def test_a_loop_is_written_out_where_its_body_has_a_cut(loop_cells):
    """One pass more than it carries values; other loops stay."""
    cut_in_passes, plain = loop_cells.spiking(rnnc.repeat, 9), loop_cells.neuron(rnnc.repeat, 9)
    found = cut(cut_in_passes, ordinary(cut_in_passes, batch=1, steps=1, heads=1, dim=1))
    assert not any("repeat" in line for line in found.cell.equations())
    held = [text for text in found.shown.values() if text.startswith("the value of with_gradient")]
    assert len(held) == 3
    whole = cut(plain, ordinary(plain, batch=1, steps=1, heads=1, dim=1)).cell
    assert any("repeat 9 times" in line for line in whole.equations())


def test_a_wrong_derivative_in_a_loop_is_found(loop_cells, monkeypatch):
    pullback = TABLE["sigmoid"].pullback
    monkeypatch.setitem(
        TABLE["sigmoid"].__dict__, "pullback", lambda d, y, x: (2 * pullback(d, y, x)[0],)
    )
    other = loop_cells.spiking(rnnc.repeat, 4).model_copy(update={"name": "wrong_in_a_loop"})
    assert finite_differences(other).startswith("the gradient of sigmoid(")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("sigmoid", "the gradient of sigmoid(4*clip_gradient(tanh("),
        ("tanh", "the gradient of tanh(held0*v*(1 - stop_gradient(s + q)) + g*dt - 1) over time"),
    ],
)
def test_a_wrong_derivative_is_found_on_either_side_of_a_cut(function, said, monkeypatch):
    pullback = TABLE[function].pullback
    monkeypatch.setitem(
        TABLE[function].__dict__, "pullback", lambda d, y, x: (2 * pullback(d, y, x)[0],)
    )
    # Derived anew: another name is another cell.
    other = spiking.model_copy(update={"name": f"wrong_{function}"})
    assert finite_differences(other).startswith(said)
