"""Gradients with a graph of their own (`create_graph=True`), where several calls share weights."""

from __future__ import annotations

import copy

import pytest
import rnnc
import torch
from torch import nn

DOUBLE = {"dtype": torch.float64}


def parts(module, x):
    """Two calls, the second from the states of the first."""
    y, states = module(x[:3])
    return y, module(x[3:], states)[0]


def rows(module, x):
    """A call on the output of another."""
    y, _ = module(x)
    return (module(y)[0],)


def steps(cell, x):
    """A loop over a cell."""
    state, found = None, []
    for each in x:
        state = cell(each, state)
        found.append(state[0] if isinstance(state, tuple) else state)
    return tuple(found)


CALLS = {
    "LSTM in two parts": (parts, nn.LSTM(4, 4, **DOUBLE)),
    "GRU on its own output": (rows, nn.GRU(4, 4, num_layers=2, **DOUBLE)),
    "LSTMCell": (steps, nn.LSTMCell(4, 4, **DOUBLE)),
    "GRUCell": (steps, nn.GRUCell(4, 4, **DOUBLE)),
}


def derivatives(call, module, x):
    """The first and the second."""
    x = x.clone().requires_grad_()
    inputs = [x, *module.parameters()]
    loss = sum((y * y.cos()).sum() for y in call(module, x))
    first = torch.autograd.grad(loss, inputs, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs)
    return first, second


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_gradients(name):
    call, theirs = CALLS[name]
    ours = copy.deepcopy(theirs)
    rnnc.convert(ours, force=True)
    x = torch.randn(6, 2, 4, **DOUBLE)
    for found, wanted in zip(derivatives(call, ours, x), derivatives(call, theirs, x), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("call", [parts, rows])
def test_first_gradients_of_any_cell(call):
    module = rnnc.RNN(rnnc.cells.gru, 4, 4, **DOUBLE)
    x = torch.randn(6, 2, 4, **DOUBLE)
    found, wanted = (
        torch.autograd.grad(
            sum(y.sum() for y in call(module, x)), list(module.parameters()), create_graph=graph
        )
        for graph in (True, False)
    )
    torch.testing.assert_close(found, wanted)
