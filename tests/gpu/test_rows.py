"""Rows of several heads on a GPU: values and gradients of calls that are replayed, and of steps."""

from __future__ import annotations

import pytest
import rnnc
import torch


def results(rnn, x, step):
    """Every output and every gradient, by name."""
    y, last = rnn.step(x[0]) if step else rnn(x)
    loss = y.sin().sum() + sum(s.square().sum() for s in last)
    named = {"x": x} | dict(rnn.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()))
    return {"y": y.detach()} | dict(zip(named, found, strict=True))


@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", ["lstm", "slstm", "indrnn", "fastgrnn"])
def test_several_heads_against_the_reference(name, both, step):
    """Weights change between calls, so that nothing may be remembered of them."""
    if both and step:
        pytest.skip("a step has one direction")
    torch.manual_seed(0)
    options = {"heads": 3, "num_layers": 2, "bidirectional": both}
    cell = rnnc.cells.get(name)
    rnn = rnnc.RNN(cell, 20, 96, device="cuda", precision="ieee", **options)
    exact = rnnc.RNN(cell, 20, 96, backend="reference", dtype=torch.float64, **options)
    for _ in range(5):
        with torch.no_grad():
            for parameter in rnn.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        exact.load_state_dict({n: p.cpu().double() for n, p in rnn.state_dict().items()})
        x = torch.randn(7, 4, 20, device="cuda", requires_grad=True)
        found = results(rnn, x, step)
        wanted = results(exact, x.detach().cpu().double().requires_grad_(), step)
        for key, value in wanted.items():
            error = (found[key].cpu().double() - value).norm() / value.norm().clamp(min=1e-9)
            assert error < 1e-5, key
        for key, gradient in found.items():
            assert key == "y" or gradient.is_contiguous(), key  # autograd copies others


def test_a_stepper_of_several_heads_sees_changes_in_place():
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.slstm, 20, 96, heads=3, num_layers=2, device="cuda")
    stepper, states = rnn.stepper(4), None
    for _ in range(4):
        with torch.no_grad():
            for parameter in rnn.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
            x = torch.randn(4, 20, device="cuda")
            y, states = rnn.step(x, states)
        assert torch.equal(stepper(x), y)


@pytest.mark.parametrize("heads", [1, 3])
def test_a_compiled_module_takes_rows(heads):
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.lstm, 20, 96, heads=heads, num_layers=2, device="cuda")
    compiled = torch.compile(rnn, fullgraph=True)
    for _ in range(4):
        x = torch.randn(7, 4, 20, device="cuda", requires_grad=True)
        wanted = results(rnn, x, False)
        y, last = compiled(x)
        loss = y.sin().sum() + sum(s.square().sum() for s in last)
        named = {"x": x} | dict(rnn.named_parameters())
        found = torch.autograd.grad(loss, list(named.values()))
        torch.testing.assert_close(y, wanted["y"])
        for key, gradient in zip(named, found, strict=True):
            torch.testing.assert_close(gradient, wanted[key], rtol=1e-4, atol=1e-4)
