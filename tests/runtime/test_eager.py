"""Calls of plain tensors, without the operators: donated memory and autocast."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.grad import compute


@pytest.mark.parametrize("retain", [False, True])
def test_what_was_kept_is_donated_unless_the_graph_is_retained(retain, inputs_for, monkeypatch):
    told = []
    run = compute.backward_layers

    def spy(*arguments):
        told.append(arguments[-1])
        return run(*arguments)

    monkeypatch.setattr(compute, "backward_layers", spy)
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 2, 3, 1, 8)
    (h, _), _ = rnnc.scan(cell, inputs.wx, inputs.R, inputs.b, inputs.states)
    torch.autograd.grad(h.sum(), inputs.wx, retain_graph=retain)
    assert told == [not retain]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_backward_inside_autocast_rounds_nothing(compiled, inputs_for):
    """The forward was outside: the gradient of R is a product of torch's, as exact as it was."""
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 2, 9, 1, 8, torch.float32)

    def scan(wx, R):
        return rnnc.scan(cell, wx, R, inputs.b, inputs.states)[0][0].square().sum()

    call = torch.compile(scan, backend="aot_eager") if compiled else scan
    given = (inputs.wx, inputs.R)
    wanted = torch.autograd.grad(call(*given), given)
    loss = call(*given)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(loss, given)
    for got, want in zip(found, wanted, strict=True):
        assert torch.equal(got, want)
