"""Declarations in any order give the right gradients for every name."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, sigmoid, tanh
from rnnc.codegen.derive import derive
from rnnc.codegen.layout import layout_of
from rnnc.codegen.spaces import ParamIndex

SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 24))]
SHAPE = (3, 5, 2, 7)


@rnnc.cell
def no_input_first(h: State, *, a: Gate = gate(input=False), b: Gate = gate()):
    """A gate without input stands before one with input."""
    return tanh(a) * sigmoid(b)


@rnnc.cell
def mixed(
    h: State,
    w: Param,
    c: State,
    *,
    a: Gate = gate(input=False, recurrent="diagonal", source=("c", "h")),
    b: Gate = gate(bias=False),
    d: Gate = gate(input=False, source=("c", "h"), bias=False),
    e: Gate = gate(recurrent=False),
):
    """Every kind of gate, those without input between those with."""
    c = sigmoid(a) * c + tanh(b) * w
    return sigmoid(d) * tanh(c) * tanh(e) + h / 2, c


@pytest.mark.parametrize("cell", [no_input_first, mixed], ids=lambda c: c.name)
def test_gates_without_input_may_come_first(cell, inputs_for):
    """The kernel sorts gates by input; every gradient still reaches its own name."""
    inputs = inputs_for(cell, 3, 4, 2, 5)
    wanted, got = inputs.scan(cell, "reference"), inputs.scan(cell, "cpu")
    seeds = {name: torch.randn_like(value) for name, value in wanted.items()}
    flat = inputs.named()
    gradients = [
        torch.autograd.grad(sum((o[k] * seeds[k]).sum() for k in o), list(flat.values()))
        for o in (wanted, got)
    ]
    for name, w, g in zip(flat, *gradients, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-10, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")


def largest_error(got, wanted):
    """Of all names, in units of each one's largest value."""
    return max(
        ((got[k] - wanted[k]).abs().max() / wanted[k].abs().max().clamp(min=1e-9)).item()
        for k in wanted
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_declarations_decides_no_bit(seed, mixed_cells):
    """Gates, sources and params in another order: the same by name, from the same plan."""
    spec = mixed_cells.mixed(seed)
    named = mixed_cells.draw_named(spec, *SHAPE)
    seeds = mixed_cells.draw_seeds(spec, *SHAPE)
    wanted = mixed_cells.loop(spec, named, seeds)
    other, other_states = spec.shuffled(seed), spec.shuffled(seed, states=True)
    for backend in ("cpu", "reference"):
        got = mixed_cells.run(spec, named, seeds, backend=backend)
        assert largest_error(got, wanted) < 1e-11
        again = mixed_cells.run(other, named, seeds, backend=backend)
        assert [k for k in got if not torch.equal(again[k], got[k])] == []
    again = mixed_cells.run(other_states, named, seeds, backend="cpu")
    assert largest_error(again, wanted) < 1e-11


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=pytest.mark.slow if s % 2 else ()) for s in range(24)]
)
def test_the_order_of_declarations_decides_no_statement(seed, mixed_cells):
    """The derived programs are the same, statement by statement."""
    spec = mixed_cells.mixed(seed)
    one, other = derive(spec.cell()), derive(spec.shuffled(seed).cell())
    assert (one.forward, one.backward) == (other.forward, other.backward)
    assert {*one.saved} == {*other.saved}


def test_an_index_of_one_space_does_not_fit_another():
    """A bare integer does not, either."""
    layout = layout_of(mixed)
    assert layout.gates.names == ("b", "e", "a", "d")
    assert [layout.gates[g] for g in layout.bias] == ["a", "e"]
    assert [layout.states[s] for s in layout.sources] == ["h", "c"]
    (first, *_) = layout.dense_gates.space
    for wrong in (layout.gates.at("b"), ParamIndex(0), 0):
        with pytest.raises(TypeError, match="where a DenseIndex belongs"):
            layout.dense_gates[wrong]
    assert layout.gates[layout.dense_gates[first]] == "b"
    with pytest.raises(TypeError, match="a DenseIndex where a GateIndex belongs"):
        layout.gates[first]
