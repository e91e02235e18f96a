"""Lengths and resets of modules, and packed sequences, on a GPU against the reference."""

from __future__ import annotations

import pytest
import rnnc
import torch

CELL = rnnc.cells.lstm


def gradients(outputs, tensors):
    seeds = [torch.linspace(-1, 1, o.numel(), device=o.device).view(o.shape) for o in outputs]
    return torch.autograd.grad(
        outputs, tensors, [s.to(o) for s, o in zip(seeds, outputs, strict=True)]
    )


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "batch_first": True}])
def test_a_module(options):
    rnn = rnnc.RNN(CELL, 8, 32, num_layers=2, device="cuda", precision="ieee", **options)
    outer = (5, 9) if rnn.batch_first else (9, 5)
    x = torch.randn(*outer, 8, device="cuda", requires_grad=True)
    lengths = torch.tensor([9, 0, 3, 8, 1], device="cuda")
    reset = torch.rand(outer, device="cuda") < 0.3
    values = [
        torch.randn(2 * (1 + rnn.bidirectional), 32, device="cuda", requires_grad=True)
        for _ in CELL.states
    ]
    tensors = [x, *values, *rnn.parameters()]
    results = []
    for backend in ("cuda", "reference"):
        rnn.backend = backend
        y, last = rnn(x, lengths=lengths, reset=reset, reset_to=values)
        results.append((y, *last, *gradients((y, *last), tensors)))
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)


def test_packed_sequences():
    wx = torch.randn(12, 1, 32, 4, device="cuda", requires_grad=True)
    R = (torch.randn(4, 1, 32, 32, device="cuda") / 32**0.5).requires_grad_()
    starts = torch.tensor([0, 5, 5, 12], dtype=torch.int32, device="cuda")
    results = []
    for backend in ("cuda", "reference"):
        (h, c), last = rnnc.scan_packed(
            CELL, wx, R, cu_seqlens=starts, max_seqlen=7, backend=backend, precision="ieee"
        )
        results.append((h, c, *last, *gradients((h, c, *last), [wx, R])))
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)
    with pytest.raises(rnnc.TensorError, match="max_seqlen"):
        rnnc.scan_packed(CELL, wx, R, cu_seqlens=starts)


@pytest.mark.parametrize("wrong", [[0, 90, 12], [-4, 2, 12], [8, 3, 12], [0, 1, 2]])
def test_wrong_values_are_clamped_or_refused(wrong, monkeypatch):
    wx = torch.randn(12, 1, 32, 4, device="cuda")
    R = torch.randn(4, 1, 32, 32, device="cuda") / 32**0.5
    starts = torch.tensor(wrong, dtype=torch.int32, device="cuda")
    (h, _), _ = rnnc.scan_packed(CELL, wx, R, cu_seqlens=starts, max_seqlen=12)
    assert h.isfinite().all()
    monkeypatch.setenv("RNNC_CHECK", "1")
    with pytest.raises(rnnc.TensorError, match="cu_seqlens"):
        rnnc.scan_packed(CELL, wx, R, cu_seqlens=starts, max_seqlen=12)
    lengths = torch.tensor([13], device="cuda")
    with pytest.raises(rnnc.TensorError, match="lengths"):
        rnnc.scan(CELL, wx[None], R, lengths=lengths)
