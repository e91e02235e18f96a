"""The values of a single step on a GPU, whose kernels run as C++ on the CPU."""

from __future__ import annotations

import pytest
import rnnc
import torch


def results(rnn, x, states, seeds):
    y, last = rnn.step(x, states)
    outputs = {"y": y, **{f"last {i}": s for i, s in enumerate(last)}}
    leaves = {"x": x, **{f"state {i}": s for i, s in enumerate(states or [])}}
    leaves |= dict(rnn.named_parameters())
    gradients = torch.autograd.grad(list(outputs.values()), list(leaves.values()), seeds)
    return outputs | {f"d_{n}": g for n, g in zip(leaves, gradients, strict=True)}


# A batch that one kernel multiplies, and one that the library does; sizes that loads divide or not.
@pytest.mark.parametrize(
    ("name", "batch", "heads", "hidden", "given"),
    [
        *((name, 3, 2, 12, True) for name in ("lstm", "nas_cell")),
        *((name, 9, 2, 12, True) for name in ("gru", "indrnn", "nas_cell")),
        ("lstm", 9, 1, 12, True),
        ("gru", 9, 1, 7, False),
        ("gru", 5, 1, 7, False),
    ],
)
def test_outputs_and_gradients(name, batch, heads, hidden, given, emulated_gpu):
    cell, layers = rnnc.cells.get(name), 2
    options = {"heads": heads, "num_layers": layers, "dtype": torch.float64}
    rnn = rnnc.RNN(cell, 4, hidden, backend="simulated", **options)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    wanted = rnnc.RNN(cell, 4, hidden, backend="reference", **options)
    wanted.load_state_dict(rnn.state_dict())
    x = torch.randn(batch, 4, dtype=torch.float64, requires_grad=True)
    states = [
        (0.5 + torch.rand(layers, batch, hidden, dtype=torch.float64)).requires_grad_()
        for _ in cell.states
        if given
    ] or None
    sizes = [(batch, hidden), *[(layers, batch, hidden)] * len(cell.states)]
    seeds = [torch.randn(*size, dtype=torch.float64) for size in sizes]
    found = results(rnn, x, states, seeds)
    for key, value in results(wanted, x, states, seeds).items():
        torch.testing.assert_close(found[key], value, msg=lambda text, key=key: f"{key}: {text}")


def test_no_biases_and_gradients_of_some_weights_in_float32(emulated_gpu):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, bias=False, dtype=torch.float32, backend="simulated")
    rnn.weight_hh_l0.requires_grad_(False)
    wanted = rnnc.RNN(rnnc.cells.lstm, 4, 6, bias=False, backend="reference")
    wanted.load_state_dict(rnn.state_dict())
    x = torch.randn(10, 4)
    found, other = (
        torch.autograd.grad(module.step(x)[1][1].sum(), module.weight_ih_l0)[0]
        for module in (rnn, wanted)
    )
    torch.testing.assert_close(found, other)
