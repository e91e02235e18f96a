"""Compiled modules on a GPU: values at both precisions, flags that change, CUDA graphs."""

from __future__ import annotations

import pytest
import rnnc
import torch
from torch._dynamo.testing import CompileCounterWithBackend

MODES = ["default", "reduce-overhead"]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def results(run, module, x, seed, between=None):
    """The output and every gradient of a training step."""
    torch.compiler.cudagraph_mark_step_begin()
    y, _ = run(x)
    if between is not None:
        between()
    gradients = torch.autograd.grad(y, list(module.parameters()), seed)
    return [t.detach().clone() for t in (y, *gradients)]


def close(found, wanted, tolerance):
    for got, right in zip(found, wanted, strict=True):
        assert (got - right).norm() <= tolerance * right.norm()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("save", ["gates", "states"])
def test_the_backward_has_the_precision_of_its_forward(mode, save, monkeypatch):
    flags = torch.backends.cudnn.rnn
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.lstm, 24, 64, num_layers=2, save=save, device="cuda")
    exact = rnnc.RNN(
        rnnc.cells.lstm, 24, 64, num_layers=2, backend="reference", device="cuda"
    ).double()
    exact.load_state_dict(rnn.state_dict())
    x, seed = torch.randn(9, 5, 24, device="cuda"), torch.randn(9, 5, 64, device="cuda")
    right = results(exact, exact, x.double(), seed.double())
    compiled = torch.compile(rnn, mode=mode)
    for _ in range(4):  # graphs are warmed up, captured and replayed
        for before, after in (("ieee", "tf32"), ("tf32", "ieee")):
            monkeypatch.setattr(flags, "fp32_precision", before)
            change = lambda: monkeypatch.setattr(flags, "fp32_precision", after)  # noqa: B023, E731
            found = results(compiled, rnn, x, seed, change)
            for got, wanted in zip(found, right, strict=True):
                error = (got.double() - wanted).norm() / wanted.norm()
                assert error < 3e-6 if before == "ieee" else 3e-6 < error < 5e-3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"dropout": 0.0}], ids=str)
def test_values_are_those_of_an_eager_module(mode, dtype, options):
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.gru, 32, 64, num_layers=3, device="cuda", **options).to(dtype)
    rnn.precision = "ieee"
    compiled = torch.compile(rnn, mode=mode)
    directions = 2 if options.get("bidirectional") else 1
    for _ in range(4):
        x = torch.randn(12, 6, 32, device="cuda", dtype=dtype)
        seed = torch.randn(12, 6, 64 * directions, device="cuda", dtype=dtype)
        tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
        close(results(compiled, rnn, x, seed), results(rnn, rnn, x, seed), tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_weights_that_change_in_place_are_seen(mode):
    rnn = rnnc.RNN(rnnc.cells.lstm, 32, 64, device="cuda", precision="ieee")
    compiled = torch.compile(rnn, mode=mode)
    x, seed = torch.randn(12, 6, 32, device="cuda"), torch.randn(12, 6, 64, device="cuda")
    for _ in range(5):
        close(results(compiled, rnn, x, seed), results(rnn, rnn, x, seed), 1e-5)
        with torch.no_grad():
            for parameter in rnn.parameters():
                parameter.add_(torch.randn_like(parameter) / 16)


def test_nothing_hinders_a_graph():
    rnn = rnnc.RNN(rnnc.cells.lstm, 32, 64, num_layers=2, dropout=0.5, device="cuda")
    compiled = torch.compile(rnn, mode="reduce-overhead")
    before = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    for _ in range(4):
        x, seed = torch.randn(12, 6, 32, device="cuda"), torch.randn(12, 6, 64, device="cuda")
        assert all(t.isfinite().all() for t in results(compiled, rnn, x, seed))
    assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == before


def test_new_sizes_compile_once_more_and_then_never():
    counter = CompileCounterWithBackend("inductor")
    rnn = rnnc.RNN(rnnc.cells.gru, 32, 64, device="cuda", precision="ieee")
    compiled = torch.compile(rnn, backend=counter)
    for steps, batch in ((4, 3), (7, 5), (9, 2), (3, 8)):
        x = torch.randn(steps, batch, 32, device="cuda")
        seed = torch.randn(steps, batch, 64, device="cuda")
        close(results(compiled, rnn, x, seed), results(rnn, rnn, x, seed), 1e-5)
    assert counter.frame_count <= 2
