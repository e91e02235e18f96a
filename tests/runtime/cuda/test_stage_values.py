"""Values and gradients of cells with stages, whose block kernels run as C++ on the CPU."""

from __future__ import annotations

import pytest
import rnnc
import torch

T, B, FEATURES = 6, 6, 5
LENGTHS = torch.tensor([6, 2, 0, 4, 1, 3])
RESET = torch.tensor([[0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0]] * 2).bool()
CALLS = {"plain": {}, "lengths and resets": {"lengths": LENGTHS, "reset": RESET}}


def module(cell, backend, dtype, dim, **options):
    torch.manual_seed(3)
    choice = {"variant": "block", "precision": "ieee"} if backend == "simulated" else {}
    rnn = rnnc.RNN(cell, FEATURES, dim, dtype=torch.float64, backend=backend, **choice, **options)
    for name, parameter in rnn.named_parameters():
        scale = parameter.shape[-1] ** -0.5 if "weight_hh" in name else 0.5
        torch.nn.init.normal_(parameter, std=scale)
    return rnn.to(dtype)


def found(rnn, dtype, dim, **call):
    torch.manual_seed(4)

    def draw(*shape):
        return torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()

    x, parts = draw(T, B, FEATURES), rnn.num_layers * (2 if rnn.bidirectional else 1)
    inputs = {given.name: draw(T, B, dim) for given in rnn.cell.inputs}
    first = tuple(draw(parts, B, dim) for _ in rnn.cell.states)
    given = x
    if "lengths" in call:
        padding = torch.arange(T)[:, None] >= call["lengths"]
        given = x.masked_fill(padding[..., None], torch.nan)
    state = first if len(first) > 1 else first[0]
    y, last = rnn(given, state, **({"inputs": inputs} if inputs else {}), **call)
    results = (y, *(last if isinstance(last, tuple) else (last,)))
    seeds = [torch.randn(t.shape, dtype=torch.float64).to(dtype) for t in results]
    torch.autograd.backward(results, seeds)
    tensors = {"x": x, **inputs, **dict(rnn.named_parameters())}
    tensors |= {f"state {place}": tensor for place, tensor in enumerate(first)}
    named = {f"result {place}": result for place, result in enumerate(results)}
    return named | {f"d {name}": tensor.grad for name, tensor in tensors.items()}


def compare(cell, call, dtype, dim, **options):
    kernels = found(module(cell, "simulated", dtype, dim, **options), dtype, dim, **call)
    wanted = found(
        module(cell, "reference", torch.float64, dim, **options), torch.float64, dim, **call
    )
    bound = 3e-5 if dtype == torch.float32 else 4e-2
    for name, value in wanted.items():
        assert not kernels[name].isnan().any(), name
        error = (kernels[name].double() - value).norm() / max(value.norm(), 1e-3)
        assert error < bound, f"{name}: {error}"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["gru_reset_first", "norm_lstm", "deep"])
def test_them(name, call, emulated_blocks, staged_cells, poisoned):
    compare(getattr(staged_cells, name), CALLS[call], torch.float32, 24)
    assert {plan.kind for plan in emulated_blocks} == {"block"}
