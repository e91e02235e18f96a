"""Declarations in any order: gradients of every name are right, whatever stands beside it."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, sigmoid, tanh


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
