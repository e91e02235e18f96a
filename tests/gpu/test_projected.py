"""Modules whose output is projected, on a GPU against torch's LSTM and the reference in float64."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.nn import own
from torch import nn

P, HIDDEN, INPUT, B, T = 16, 64, 12, 5, 9


def results(rnn, tensors, **options):
    x, *states = tensors
    y, last = rnn(x, states or None, **options)
    outputs = (y, *last)
    seeds = [torch.linspace(-1, 1, t.numel()).view(t.shape).to(t) for t in outputs]
    named = dict(rnn.named_parameters())
    gradients = torch.autograd.grad(outputs, [*tensors, *named.values()], seeds)
    places = [f"input {i}" for i in range(len(tensors))]
    found = {f"output {i}": t for i, t in enumerate(outputs)}
    return found | dict(zip([*places, *named], gradients, strict=True))


def leaves(tensors, like):
    return [t.detach().to(like.device, like.dtype).requires_grad_() for t in tensors]


@pytest.mark.parametrize("steps", [1, T])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_as_torchs_lstm(both, given, steps):
    sizes = {"num_layers": 2, "bidirectional": both, "proj_size": P}
    rnn = rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, device="cuda", precision="ieee", **sizes)
    twin = nn.LSTM(INPUT, HIDDEN, dtype=torch.float64, **sizes)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            own = name.replace("bias_ih", "bias")
            parameter.copy_(0 * parameter if "bias_hh" in name else rnn.get_parameter(own))
    x, widths = torch.randn(steps, B, INPUT), (P, HIDDEN) if given else ()
    states = [torch.randn(2 * (1 + both), B, width) for width in widths]
    for _ in range(4):  # the last calls are replays
        found = results(rnn, leaves((x, *states), rnn.weight_hr_l0))
    wanted = results(twin, leaves((x, *states), twin.weight_hr_l0))
    for name, tensor in found.items():
        other = wanted[name.replace("bias_l", "bias_ih_l")]
        torch.testing.assert_close(
            tensor.double().cpu(), other, atol=1e-4, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("both", [False, True])
def test_a_compiled_module_that_gets_states(both):
    rnn = rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, bidirectional=both, proj_size=P, device="cuda")
    x = torch.randn(T, B, INPUT, device="cuda")
    states = [torch.randn(1 + both, B, width, device="cuda") for width in (P, HIDDEN)]
    wanted, found = rnn(x, states), torch.compile(rnn, fullgraph=True)(x, states)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("given", [False, True])
def test_torchs_module_on_kernels(given, monkeypatch):
    """`rnnc.nn.LSTM` with a projection; torch's own forward must not run."""
    monkeypatch.setattr(own, "run_torch", lambda *_: pytest.fail("torch's own forward"))
    sizes = {"num_layers": 2, "proj_size": P}
    twin = nn.LSTM(INPUT, HIDDEN, dtype=torch.float64, **sizes)
    ours = rnnc.nn.LSTM(INPUT, HIDDEN, device="cuda", **sizes)
    ours.load_state_dict(twin.state_dict())
    x, widths = torch.randn(T, B, INPUT), (P, HIDDEN) if given else ()
    states = [torch.randn(2, B, width) for width in widths]
    for _ in range(4):
        found = results(ours, leaves((x, *states), ours.weight_hr_l0))
    wanted = results(twin, leaves((x, *states), twin.weight_hr_l0))
    for name, tensor in found.items():
        torch.testing.assert_close(
            tensor.double().cpu(),
            wanted[name],
            atol=1e-4,
            rtol=1e-4,
            msg=lambda m, n=name: f"{n}: {m}",
        )


@pytest.mark.parametrize("both", [False, True])
def test_a_compiled_call(both):
    sizes = {"num_layers": 2, "bidirectional": both, "proj_size": P}
    rnn = rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, device="cuda", **sizes)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    x = torch.randn(T, B, INPUT)
    (one,), (other,) = leaves([x], rnn.weight_hr_l0), leaves([x], rnn.weight_hr_l0)
    outputs = compiled(one)[0], rnn(other)[0]
    for y in outputs:
        y.square().sum().backward()
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("cell", ["lstm", "nas_cell", "slstm"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lengths_and_resets(cell, dtype):
    cell = rnnc.cells.get(cell)
    options = {"heads": 2, "bidirectional": True, "proj_size": P}
    rnn = rnnc.RNN(cell, INPUT, HIDDEN, device="cuda", dtype=dtype, precision="ieee", **options)
    other = rnnc.RNN(cell, INPUT, HIDDEN, dtype=torch.float64, backend="reference", **options)
    other.load_state_dict(dict(rnn.state_dict()))
    widths = [2 * P, *[HIDDEN] * (len(cell.states) - 1)]
    x, states = torch.randn(T, B, INPUT), [torch.rand(2, B, width) for width in widths]
    lengths, reset = torch.tensor([T, 0, 3, 8, 1]), torch.rand(T, B) < 0.3
    found, wanted = [
        results(
            one,
            leaves((x.to(dtype), *[s.to(dtype) for s in states]), one.weight_hr_l0),
            lengths=lengths.to(one.weight_hr_l0.device),
            reset=reset.to(one.weight_hr_l0.device),
        )
        for one in (rnn, other)
    ]
    close = 1e-3 if dtype == torch.float32 else 0.1
    for name, tensor in found.items():
        scale = wanted[name].abs().max().clamp_min(1).item()
        error = (tensor.double().cpu() - wanted[name]).abs().max().item()
        assert error <= close * scale, f"{name}: {error} of {scale}"


def test_steps():
    rnn = rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, num_layers=2, proj_size=P, device="cuda")
    stepper, states = rnn.stepper(B), None
    for _ in range(3):
        x = torch.randn(B, INPUT, device="cuda")
        with torch.no_grad():
            y, states = rnn.step(x, states)
        assert torch.equal(stepper(x), y)
