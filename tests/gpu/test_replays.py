"""A replayed call gives the bits of the call itself, in memory that held NaN before."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cuda import together
from rnnc.runtime.cuda.driver import graphs, stream_memory
from rnnc.runtime.cuda.driver.graphs import Graph

# T, B, hidden; both directions of 640 units run in two streams.
SIZES = ((4, 5, 64), (32, 16, 128), (3, 8, 512), (8, 1, 64), (30, 64, 640))


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
    every = 5 if dtype == torch.bfloat16 else 4  # 640 units of float32 have a plan of no replays
    for steps, batch, hidden in SIZES[: 2 if name in ("elman", "slstm") else every]:
        rnn = rnnc.RNN(cell, hidden, hidden, num_layers=layers, bidirectional=both, **kind)
        for train in (True, False):
            for _ in range(5):
                x = torch.randn(steps, batch, hidden, **kind)
                seed = torch.randn(steps, batch, hidden * (1 + both), **kind)
                shape = (layers * (1 + both), batch, hidden)
                states = [torch.rand(shape, **kind) + 0.1 for _ in cell.states] if given else None
                found = run(rnn, x, seed, states, train)
            known, rnn._known_calls._entries = rnn._known_calls._entries, {}
            wanted = run(rnn, x, seed, states, train)
            rnn._known_calls._entries = known
            for got, want in zip(found, wanted, strict=True):
                assert torch.equal(got, want)
        made = [each for k in known.values() for each in k.replays._known.values()]
        assert len(made) == 3
        assert all(each.program is not None for each in made)


def check(rnn, shape, times=5):
    """Compare replays with the call itself; gives the replays."""
    kind = {"device": "cuda", "dtype": next(rnn.parameters()).dtype}
    for _ in range(times):
        x, seed = (torch.randn(shape, **kind) for _ in range(2))
        for train in (True, False):
            found = run(rnn, x, seed, None, train)
            known, rnn._known_calls._entries = rnn._known_calls._entries, {}
            wanted = run(rnn, x, seed, None, train)
            rnn._known_calls._entries = known
            for got, want in zip(found, wanted, strict=True):
                assert want.isfinite().all()
                assert torch.equal(got, want)
    return [each.program for k in known.values() for each in k.replays._known.values()]


@pytest.mark.parametrize("order", ["sequential", "wavefront", "auto"])
@pytest.mark.parametrize("variant", ["block", "grid", "alternating"])
def test_each_order(variant, order):
    """Products in chunks, other streams and graphs: a replay without them would be wrong."""
    if order == "wavefront" and variant != "block":
        pytest.skip("grid and alternating plans run in no wavefront")
    hidden = {"block": 64, "grid": 512, "alternating": 256}[variant]
    options = {"num_layers": 3, "variant": variant, "layers": order}
    rnn = rnnc.RNN(rnnc.cells.lstm, hidden, hidden, **options).to("cuda", torch.bfloat16)
    check(rnn, (512, 4, hidden))


@pytest.mark.parametrize("order", ["sequential", "wavefront"])
@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize(
    ("variant", "layers", "batch", "dtype"),
    [
        ("block", 3, 5, torch.bfloat16),
        ("cluster", 10, 32, torch.bfloat16),  # in groups
        ("block", 2, 16, torch.float32),
    ],
    ids=str,
)
def test_a_wavefront_is_replayed(variant, layers, batch, dtype, name, order):
    heads, dim = {"block": (4, 32), "cluster": (2, 128)}[variant]
    options = {"heads": heads, "num_layers": layers, "variant": variant, "layers": order}
    rnn = rnnc.RNN(rnnc.cells.get(name), heads * dim, heads * dim, **options)
    made = check(rnn.to("cuda", dtype), (300, batch, heads * dim))
    assert len(made) == 3
    assert None not in made


def of_three_layers():
    rnn = rnnc.RNN(rnnc.cells.lstm, 64, 64, num_layers=3, layers="wavefront")
    return rnn.to("cuda", torch.bfloat16), torch.randn(512, 5, 64, device="cuda").bfloat16()


def test_a_loop_of_calls_issues_graphs_and_has_the_same_bits(monkeypatch):
    """The memory of a call lies where that of an earlier one did."""
    launches, launch = [], Graph.launch_again

    def noted(self, stream):
        launches.append(stream)
        launch(self, stream)

    monkeypatch.setattr(Graph, "launch_again", noted)
    rnn, x = of_three_layers()
    first: list[torch.Tensor] = []
    for train in (True, False):
        launches.clear()
        for _ in range(8):
            rnn.zero_grad()
            with torch.set_grad_enabled(train):
                y = rnn(x)[0]
            if train:
                y.backward(torch.ones_like(y))
            gradients = [parameter.grad for parameter in rnn.parameters()] if train else []
            first = first or [each.detach().clone() for each in (y, *gradients)]
            for found, wanted in zip((y, *gradients), first, strict=train):
                assert torch.equal(found, wanted)
                found.detach().fill_(torch.nan)
        # Two streams of products in each direction. Each has its own graphs, made where the memory
        # of its own operations comes again, so one may have a launch more than the other.
        assert len(launches) >= (4 if train else 2)


@pytest.mark.parametrize("place", ["issued", "captured", "launched"])
def test_a_wavefront_that_fails_lets_the_next_one_run(monkeypatch, place):
    rnn, x = of_three_layers()
    if place != "launched":
        monkeypatch.setattr(together, "_COST", 10**9)
    with torch.no_grad():
        wanted = rnn(x)[0].clone()
        for _ in range(6):
            rnn(x)
    kind, name = {
        "issued": (stream_memory.HandOver, "__call__"),
        "captured": (stream_memory.HandOver, "__call__"),
        "launched": (Graph, "launch_again"),
    }[place]
    left, original, made = [2 if place == "launched" else 14], getattr(kind, name), []

    def fails(self, *given):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        original(self, *given)

    def graph_of(*given):
        made.append(given)
        return graphs.graph_of(*given)

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, fails)
        patch.setattr(together, "graph_of", graph_of)
        if place == "captured":
            patch.setattr(together, "_COST", 4)
        with pytest.raises(KeyboardInterrupt), torch.no_grad():
            rnn(x)
    assert bool(made) == (place == "captured")
    torch.cuda.synchronize()
    with torch.no_grad():
        assert torch.equal(rnn(x)[0], wanted)
    check(rnn, x.shape, times=2)


def test_products_of_two_streams_do_not_disturb_each_other(same_bits):
    """They run at the same time in many of these calls, not in all."""
    rnn = rnnc.RNN("lstm", 64, 384, bidirectional=True, device="cuda", dtype=torch.float16)
    x = torch.randn(60, 64, 64, device="cuda", dtype=torch.float16)
    seed = torch.randn(60, 64, 768, device="cuda", dtype=torch.float16)
    lengths, first = torch.randint(61, (64,)), None
    for _ in range(100):
        y, last = rnn(x, lengths=lengths)
        named = dict(rnn.named_parameters())
        gradients = torch.autograd.grad(y, list(named.values()), seed)
        found = {"y": y, **dict(zip(("h", "c"), last, strict=True))}
        found |= dict(zip(named, gradients, strict=True))
        first = first or found
        same_bits(found, first)
