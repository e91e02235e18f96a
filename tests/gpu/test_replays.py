"""A replayed call gives the bits of the call itself, in memory that held NaN before."""

from __future__ import annotations

import pytest
import rnnc
import torch

SIZES = ((4, 5, 64), (32, 16, 128), (3, 8, 512), (8, 1, 64))  # T, B, hidden


def poison():
    """Fill what the next allocations get with NaN."""
    for size in (12, 16, 20, 22):
        torch.full((1 << size,), torch.nan, device="cuda")


def run(rnn, x, seed, states, train):
    """The results of a call, and all gradients."""
    rnn.zero_grad()
    x = x.detach().clone().requires_grad_(train)
    states = states and [s.detach().clone().requires_grad_(train) for s in states]
    poison()
    with torch.set_grad_enabled(train):
        y, last = rnn(x, states)
    if not train:
        return [y, *last]
    poison()
    torch.autograd.backward([y, *last], [seed, *map(torch.ones_like, last)])
    leaves = [x, *(states or ()), *rnn.parameters()]
    return [y, *last, *[leaf.grad for leaf in leaves]]


@pytest.mark.parametrize("given", [False, True], ids=("initial values", "states"))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("both", [False, True], ids=("forwards", "both directions"))
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["lstm", "gru", "elman", "slstm"])
def test_bits(name, layers, both, dtype, given):
    cell, kind = rnnc.cells.get(name), {"device": "cuda", "dtype": dtype}
    for steps, batch, hidden in SIZES[: 2 if name in ("elman", "slstm") else 4]:
        rnn = rnnc.RNN(cell, hidden, hidden, num_layers=layers, bidirectional=both, **kind)
        for train in (True, False):
            for _ in range(5):
                x = torch.randn(steps, batch, hidden, **kind)
                seed = torch.randn(steps, batch, hidden * (1 + both), **kind)
                shape = (layers * (1 + both), batch, hidden)
                states = [torch.rand(shape, **kind) + 0.1 for _ in cell.states] if given else None
                found = run(rnn, x, seed, states, train)
            known, rnn._known_calls._known = rnn._known_calls._known, {}
            wanted = run(rnn, x, seed, states, train)
            rnn._known_calls._known = known
            for got, want in zip(found, wanted, strict=True):
                assert torch.equal(got, want)
        made = [each for k in known.values() for each in k.replays._known.values()]
        assert len(made) == 3
        if not both:  # a layer in two streams is not replayed
            assert all(each.replay is not None for each in made)


@pytest.mark.parametrize("order", ["sequential", "wavefront", "auto"])
@pytest.mark.parametrize("variant", ["block", "grid", "alternating"])
def test_what_is_not_recorded_is_not_replayed(variant, order):
    """Products in chunks, other streams and graphs: a replay without them would be wrong."""
    if order == "wavefront" and variant != "block":
        pytest.skip("grid and alternating plans run in no wavefront")
    hidden = {"block": 64, "grid": 512, "alternating": 256}[variant]
    kind = {"device": "cuda", "dtype": torch.bfloat16}
    rnn = rnnc.RNN(rnnc.cells.lstm, hidden, hidden, num_layers=3, variant=variant, layers=order)
    rnn = rnn.to(**kind)
    for _ in range(5):
        x, seed = (torch.randn(512, 4, hidden, **kind) for _ in range(2))
        for train in (True, False):
            found = run(rnn, x, seed, None, train)
            known, rnn._known_calls._known = rnn._known_calls._known, {}
            wanted = run(rnn, x, seed, None, train)
            rnn._known_calls._known = known
            for got, want in zip(found, wanted, strict=True):
                assert torch.equal(got, want)
