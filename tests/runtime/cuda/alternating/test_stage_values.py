"""Values and gradients of cells with stages by alternating plans, whose kernels run as C++."""

from __future__ import annotations

import pytest
import rnnc
import torch

T, B, N, D, FEATURES = 5, 3, 2, 5, 4


def results(cell, backend, dtype, call, **options):
    """What a module gives, and every gradient by name."""
    torch.manual_seed(3)
    own = {"variant": "alternating"} if backend == "simulated" else {}
    rnn = rnnc.RNN(cell, FEATURES, N * D, heads=N, backend=backend, dtype=dtype, **own, **options)
    torch.manual_seed(5)
    tensors = {"features": torch.randn(T, B, FEATURES)}
    tensors |= {given.name: torch.randn(T, B, N * D) for given in cell.inputs}
    tensors = {name: t.to(dtype).requires_grad_() for name, t in tensors.items()}
    x, inputs = tensors["features"], {given.name: tensors[given.name] for given in cell.inputs}
    y, last, *_ = rnn(x, **({"inputs": inputs} if inputs else {}), **call)
    found = {"y": y, **{f"last {i}": state for i, state in enumerate(last)}}
    loss = sum(
        (r.double() * torch.linspace(1, 2, r.numel()).double().view(r.shape)).sum()
        for r in found.values()
    )
    loss.backward()
    found |= {f"d {name}": t.grad for name, t in (*tensors.items(), *rnn.named_parameters())}
    return {name: value.detach().double() for name, value in found.items()}


RESET = torch.rand(T, B, generator=torch.Generator().manual_seed(1)) < 0.4
CALLS = {
    "plain": {},
    "lengths": {"lengths": torch.tensor([T, 3, 0])},
    "resets": {"reset": RESET, "lengths": torch.tensor([T, 0, 4])},
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("name", ["gru", "norm_lstm", "deep"])
def test_modules(name, call, staged_cells, emulated_alternating):
    cell = staged_cells.TWINS[name][0]
    wanted = results(cell, "reference", torch.float64, call, num_layers=2)
    found = results(cell, "simulated", torch.float64, call, num_layers=2)
    assert len(emulated_alternating) >= 2
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        torch.testing.assert_close(
            found[key], value, rtol=1e-10, atol=1e-10, msg=lambda m, k=key: f"{k}: {m}"
        )
