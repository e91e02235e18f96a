"""The direct way of plain tensors: what it tells the kernels of the graph around them."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime import eager


@pytest.mark.parametrize("retain", [False, True])
def test_what_was_kept_is_donated_unless_the_graph_is_retained(retain, inputs_for, monkeypatch):
    told = []
    run = eager.run_backward

    def spy(*arguments, donated):
        told.append(donated)
        return run(*arguments, donated=donated)

    monkeypatch.setattr(eager, "run_backward", spy)
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 2, 3, 1, 8)
    (h, _), _ = rnnc.scan(cell, inputs.wx, inputs.R, inputs.b, inputs.states)
    torch.autograd.grad(h.sum(), inputs.wx, retain_graph=retain)
    assert told == [not retain]
