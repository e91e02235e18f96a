"""A single step on the CPU: values, gradients by name, and the bits of a sequence of one step."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cpu import inputs

# (hidden, heads, B, layers): products inside the kernel, and those that torch computes.
SIZES = [(16, 1, 2, 1), (64, 2, 3, 2), (128, 1, 37, 2), (128, 2, 41, 1), (300, 1, 6, 1)]


def module_and_inputs(name, size, given, dtype=torch.float64):
    hidden, heads, batch, layers = size
    cell = rnnc.cells.get(name)
    rnn = rnnc.RNN(cell, 7, hidden, heads=heads, num_layers=layers, dtype=dtype)
    x = torch.randn(batch, 7, dtype=dtype, requires_grad=True)
    shape = (layers, batch, hidden)
    states = [torch.rand(shape, dtype=dtype, requires_grad=True) for _ in cell.states]
    return rnn, x, states if given else None


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru", "slstm"])
def test_values_and_gradients_are_those_of_the_reference(name, given):
    for size in SIZES:
        rnn, x, states = module_and_inputs(name, size, given)
        found = {}
        for backend in ("cpu", "reference"):
            rnn.backend = backend
            y, last = rnn.step(x, states)
            total = y.sin().sum() + sum((state * state).sum() for state in last)
            named = {"x": x, **{f"state {i}": s for i, s in enumerate(states or ())}}
            named |= dict(rnn.named_parameters())
            gradients = torch.autograd.grad(total, list(named.values()))
            values = {"y": y, **{f"last {i}": s for i, s in enumerate(last)}}
            gradients = {f"gradient of {n}": g for n, g in zip(named, gradients, strict=True)}
            found[backend] = values | gradients
        for key, wanted in found["reference"].items():
            error = (found["cpu"][key] - wanted).norm() / wanted.norm().clamp(min=1e-9)
            assert error < 1e-12, (size, key)


@pytest.mark.parametrize("size", [(64, 2, 3, 2), (128, 1, 37, 2)])
def test_frozen_weights_get_no_gradient_and_the_others_the_same(size):
    rnn, x, states = module_and_inputs("gru", size, given=True)
    named = {"x": x, **{f"state {i}": s for i, s in enumerate(states)}}
    named |= dict(rnn.named_parameters())

    def gradients():
        for tensor in named.values():
            tensor.grad = None
        rnn.step(x, states)[0].sin().sum().backward()
        return {name: tensor.grad for name, tensor in named.items()}

    whole = gradients()
    for frozen in (["x", "weight_hh_l0"], ["state 0", "weight_ih_l0", "bias_l1"]):
        for name, tensor in named.items():
            tensor.requires_grad_(name not in frozen)
        for name, found in gradients().items():
            wanted = None if name in frozen else whole[name]
            assert found is wanted or torch.equal(found, wanted), name


def test_gradients_of_a_batch_without_rows_are_zero():
    rnn, x, _ = module_and_inputs("lstm", (64, 1, 0, 1), given=False)
    y, _ = rnn(x.unsqueeze(0))
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert all(not p.grad.any() for p in rnn.parameters())


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_and_a_sequence_of_one_have_the_same_bits(dtype, given):
    for size in SIZES:
        rnn, x, states = module_and_inputs("lstm", size, given, dtype)
        recorded = rnn(x.unsqueeze(0), states)
        with torch.no_grad():
            sequence, step = rnn(x.unsqueeze(0), states), rnn.step(x, states)
        assert sequence[0].shape == recorded[0].shape == (1, *step[0].shape)
        for y, last in (recorded, sequence):
            assert torch.equal(y[0], step[0]), size
            assert all(map(torch.equal, last, step[1])), size


def test_large_inputs_are_multiplied_without_rounding_their_factors(monkeypatch):
    """By oneDNN, unless a flag lets it round them or takes it away."""
    torch.manual_seed(0)
    x, weight = torch.randn(1024, 128), torch.randn(256, 128)
    exact = x.double() @ weight.double().t()
    monkeypatch.setattr(inputs, "_LARGE", 0)
    error = (inputs.linear(x, weight) - exact).norm() / exact.norm()
    assert error < 1e-6
    assert inputs.linear(x.double(), weight.double()).dtype == torch.float64
    assert inputs.has_onednn() == (inputs._linear_pointwise is not None)
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "bf16"
        assert not inputs.has_onednn()
    finally:
        matmul.fp32_precision = before
    monkeypatch.setattr(inputs, "_linear_pointwise", None)
    assert not inputs.has_onednn()
