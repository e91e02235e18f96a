"""Rows whose lengths come in any order, on a GPU: tiles have them in the order of their lengths."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.target import CudaTarget

CELLS = ["lstm", "lem"]  # a step of one stage, and of two
# B, T, N and D: several tiles of rows, of which the last is not full.
SIZES = {"block": (37, 29, 2, 40), "cluster": (37, 29, 2, 72), "grid": (37, 29, 1, 264)}


def call(cell, tensors, lengths, reset, seeds, **choice):
    """Results and gradients that have an axis of rows, by name, rows first."""
    wx, R, b, *states = (t.detach().requires_grad_() for t in tensors)
    over_time, last = rnnc.scan(
        cell, wx, R, b, states, lengths=lengths, reset=reset, backend="cuda", **choice
    )
    found = {f"over time {i}": s for i, s in enumerate(over_time)}
    found |= {f"last {i}": s for i, s in enumerate(last)}
    gradients = torch.autograd.grad(list(found.values()), [wx, R, b, *states], seeds)
    found |= dict(zip(("d_wx", "d_R", "d_b", "d_first", "d_second"), gradients, strict=True))
    return {name: value.detach() for name, value in found.items()}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("cell", CELLS)
def test_the_bits_are_those_of_rows_in_order(cell, kind, dtype, reverse, poisoned):
    """The caller puts rows in order, or the kernels do: the tiles have the same rows."""
    batch, steps, heads, dim = SIZES[kind]

    def draw(*shape, scale=1.0):
        return (torch.randn(shape, device="cuda") * scale).to(dtype)

    wx, states = draw(batch, steps, heads, dim, 4), [draw(batch, heads, dim) for _ in range(2)]
    shared = draw(4, heads, dim, dim, scale=0.8 / dim**0.5), draw(4, heads, dim)
    seeds = [*(draw(batch, steps, heads, dim) for _ in range(2)), *(map(torch.randn_like, states))]
    lengths = torch.randint(0, steps + 1, (batch,), device="cuda")
    lengths[::7] = 5  # rows of one length keep their order
    reset = torch.rand(batch, steps, device="cuda") < 0.1
    past = (torch.arange(steps, device="cuda") >= lengths[:, None])[..., None, None]
    wx = wx.masked_fill(past[..., None], float("nan"))
    seeds[:2] = (s.masked_fill(past, float("nan")) for s in seeds[:2])
    order = lengths.sort(stable=True, descending=True).indices
    assert not torch.equal(order, order.sort().values)
    choice = {"variant": kind, "reverse": reverse, "precision": "ieee"}
    got = call(cell, [wx, *shared, *states], lengths, reset, seeds, **choice)
    wanted = call(
        cell,
        [wx[order], *shared, *(s[order] for s in states)],
        lengths[order],
        reset[order],
        [s[order] for s in seeds],
        **choice,
    )
    for name, value in wanted.items():
        if name == "d_R" or (name == "d_b" and kind == "grid"):
            # Sums over rows as they lie.
            error = (got[name].double() - value.double()).norm() / value.double().norm()
            assert error < (1e-2 if dtype == torch.bfloat16 else 1e-5), name
        else:
            rows = got[name] if name == "d_b" else got[name][order]
            assert torch.equal(rows, value), name


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_graph_of_a_module_follows_the_lengths(cell, joint, monkeypatch):
    """Forward and backward are captured; the lengths change between replays."""
    monkeypatch.setattr(CudaTarget, "joins", lambda *_: joint)
    rnn = rnnc.RNN(cell, 8, 64, num_layers=2, bidirectional=True, device="cuda", precision="ieee")
    x = torch.randn(33, 37, 8, device="cuda", requires_grad=True)
    lengths = torch.full((37,), 33, device="cuda")
    reset = torch.rand(33, 37, device="cuda") < 0.1
    seed = torch.randn(33, 37, 128, device="cuda")

    def run(module):
        y, last = module(x, lengths=lengths, reset=reset)
        return y, *last, *torch.autograd.grad(y, [x, *rnn.parameters()], seed)

    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        run(rnn)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        got = run(rnn)
    for _ in range(2):
        lengths.random_(0, 34)
        graph.replay()
        rnn.backend = "reference"
        for ours, wanted in zip(got, run(rnn), strict=True):
            torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=1e-4)
        rnn.backend = "cuda"


def test_plans_for_lengths_that_the_host_sees():
    """Of more tiles than a GPU holds at once; a call that comes again is replayed."""
    rnn = rnnc.RNN("lstm", 64, 384, bidirectional=True, device="cuda", dtype=torch.float16)
    x = torch.randn(60, 64, 64, device="cuda", dtype=torch.float16)
    seed = torch.randn(60, 64, 768, device="cuda", dtype=torch.float16)
    drawn = [torch.randint(low, 61, (64,)) for low in (0, 50)]
    for _ in range(4):
        for lengths in drawn:
            results = []
            for given in (lengths, lengths.cuda()):
                y, last = rnn(x, lengths=given)
                results.append((y, *last, *torch.autograd.grad(y, list(rnn.parameters()), seed)))
            for got, wanted in zip(*results, strict=True):
                assert (got.double() - wanted.double()).norm() < 1e-2 * wanted.double().norm()
