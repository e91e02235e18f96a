"""Lengths and resets of modules, and packed sequences, on a GPU against the reference."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.target import CudaTarget
from rnnc.runtime.program import seen
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

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


@pytest.mark.parametrize("way", ["one direction", "two streams", "one launch"])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
@pytest.mark.parametrize("steps", [16, 40])
def test_one_node_and_its_replays_have_the_bits_of_a_first_call(steps, name, way, monkeypatch):
    """The fourth call is replayed, in two streams too; padding holds NaN each time."""
    both = way != "one direction"
    monkeypatch.setattr(CudaTarget, "joins", lambda *_: way == "one launch")
    computed, run = [], seen.Replays.run

    def counted(self, key, tensors, compute, **options):
        if self is seen.NEVER:  # the first calls of a kind
            return compute()
        return run(self, key, tensors, lambda: computed.append(key) or compute(), **options)

    monkeypatch.setattr(seen.Replays, "run", counted)
    dtype, results = getattr(torch, name), []
    rnn = rnnc.RNN(CELL, 8, 64, num_layers=2, bidirectional=both, device="cuda", dtype=dtype)
    values = [torch.randn(2 * (1 + both), 64, device="cuda", dtype=dtype) for _ in CELL.states]
    values = [value.requires_grad_() for value in values]
    lengths = torch.tensor([steps, 0, 3, 9, 1], device="cuda")
    reset = torch.rand(steps, 5, device="cuda") < 0.1
    past = torch.arange(steps, device="cuda")[:, None] >= lengths
    clean = torch.randn(steps, 5, 8, device="cuda", dtype=dtype)
    for _ in range(5):
        torch.full((10**6,), float("nan"), device="cuda")  # what is allocated next may hold NaN
        x = clean.masked_fill(past[:, :, None], float("nan")).requires_grad_()
        y, last = rnn(x, lengths=lengths, reset=reset, reset_to=values)
        seed = torch.linspace(-1, 1, y.numel(), device="cuda").view(y.shape).to(y)
        seeds = [seed.masked_fill(past[:, :, None], float("nan")), *map(torch.ones_like, last)]
        tensors = [x, *values, *rnn.parameters()]
        results.append((y, *last, *torch.autograd.grad((y, *last), tensors, seeds)))
        before = len(computed)
    assert before <= 2  # each of the node's two halves once
    for other in results[1:]:
        for got, wanted in zip(other, results[0], strict=True):
            assert torch.equal(got, wanted)
    assert all(tensor.isfinite().all() for tensor in results[0])


def test_packed_rows_have_the_results_of_padded_ones():
    lstm = rnnc.nn.LSTM(8, 64, 2, bidirectional=True, device="cuda")
    rnn = rnnc.RNN(CELL, 8, 64, num_layers=2, bidirectional=True, device="cuda")
    for layer in range(2):
        for end in (f"_l{layer}", f"_l{layer}_reverse"):
            with torch.no_grad():
                lstm.get_parameter(f"bias_hh{end}").zero_()
                for own, name in (
                    ("weight_ih", "weight_ih"), ("weight_hh", "weight_hh"), ("bias", "bias_ih")
                ):  # fmt: skip
                    theirs = rnn.get_parameter(own + end)
                    theirs.copy_(lstm.get_parameter(name + end).view_as(theirs))
    lengths = torch.tensor([33, 2, 40, 40, 17])
    x = torch.randn(40, 5, 8, device="cuda")
    y, last = rnn(x, lengths=lengths)
    found, own = lstm(pack_padded_sequence(x, lengths, enforce_sorted=False))
    padded, _ = pad_packed_sequence(found)
    for got, wanted in zip((padded, *own), (y, *last), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)


def test_packed_rows_of_several_lengths_beside_whole_ones():
    """Of more tiles than a GPU holds at once; which plan runs depends on the lengths."""
    lstm = rnnc.nn.LSTM(64, 384, bidirectional=True, device="cuda", dtype=torch.float16)
    twin = torch.nn.LSTM(64, 384, bidirectional=True, device="cuda", dtype=torch.float64)
    twin.load_state_dict(lstm.state_dict())
    for lengths in (torch.randint(5, 60, (64,)), torch.randint(50, 60, (64,))):
        x = torch.randn(60, 64, 64, device="cuda", dtype=torch.float16)
        given = pack_padded_sequence(x, lengths, enforce_sorted=False)
        got, wanted = lstm(given), twin(given._replace(data=given.data.double()))
        torch.testing.assert_close(got[0].data.double(), wanted[0].data, rtol=1e-2, atol=1e-2)
        seed = torch.randn_like(got[0].data)
        ours = torch.autograd.grad(got[0].data, list(lstm.parameters()), seed)
        theirs = torch.autograd.grad(wanted[0].data, list(twin.parameters()), seed.double())
        for one, other in zip(ours, theirs, strict=True):
            assert (one.double() - other).norm() < 1e-2 * other.norm()


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
