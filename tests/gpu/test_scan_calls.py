"""Walk and scan plans in each way of calling, in long calls, and in memory.

Values and gradients of all cells are in test_walk.py and test_scan.py.
"""

from __future__ import annotations

import gc

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.choose import choose_plan
from rnnc.runtime.cuda.driver.device import device_limits
from rnnc.runtime.cuda.tune import trial_steps, tune
from rnnc.runtime.store.tuned import Asked, recall
from torch import nn

from ..linear_scans import check_as_the_loop, edges, run

KINDS = ("walk", "scan")
CELL = rnnc.cells.mingru
UNITS = 96


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


def on_the_gpu(kind):
    """Results of a kind of plan for tensors of the CPU."""

    def results(wx, seed):
        found = run("cuda", kind)(wx.cuda(), seed.cuda())
        return found[0].cpu(), found[1].cpu()

    return results


@pytest.mark.parametrize("mixed", [False, True])
def test_coefficients_at_the_edges(kind, mixed):
    check_as_the_loop(edges(400, mixed), on_the_gpu(kind), run("cpu"), draws=10)


@pytest.mark.parametrize("steps", [100, 10_000, 1_000_000])
def test_errors_are_those_of_a_loop_over_time(kind, steps):
    """In float32, of coefficients that are the same at all steps, and of others."""
    same = torch.tensor([0.9, 0.999, 0.9999, 0.99999, -0.9999]).expand(1, steps, 1, 5)
    a = torch.cat([same, torch.rand(1, steps, 1, 3) ** 0.01], -1)
    check_as_the_loop(a, on_the_gpu(kind), run("cpu"), draws=10 if steps < 10**6 else 3)


def test_a_million_steps_of_more_than_2_32_numbers(kind):
    """What follows a reset is what a call of these steps alone gives; the end is right too."""
    steps, units, few = 1_000_000, 2304, 300
    if torch.cuda.mem_get_info()[0] < 45 * 2**30:
        pytest.skip("needs 45 GiB of free memory")
    on = {"device": "cuda", "dtype": torch.bfloat16}
    wx = torch.empty(1, steps, 1, units, 2, **on).normal_().requires_grad_()
    assert wx.numel() > 2**32
    reset = torch.zeros(1, steps, dtype=torch.bool, device="cuda")
    reset[0, -few] = True
    (h,), (last,) = rnnc.scan(CELL, wx, variant=kind, reset=reset)
    (d_wx,) = torch.autograd.grad(last, wx, torch.ones_like(last))
    end = wx.detach()[:, -few:].clone().requires_grad_()
    (wanted,), (wanted_last,) = rnnc.scan(CELL, end, variant=kind)
    (d_end,) = torch.autograd.grad(wanted_last, end, torch.ones_like(last))
    for got, exact in ((h[:, -few:], wanted), (last, wanted_last), (d_wx[:, -few:], d_end)):
        torch.testing.assert_close(got.float(), exact.float(), rtol=0.02, atol=0.02)
    assert not d_wx[:, :-few].any()


@pytest.mark.parametrize("reverse", [False, True])
def test_packed_sequences_lie_where_they_are(kind, reverse):
    """A walk copies them into padded rows; a scan takes one row that begins anew."""
    lengths = torch.tensor([0, 700, 1, 5000, 0, 37])
    starts = torch.tensor([0, *lengths.cumsum(0)], dtype=torch.int32)
    wx = torch.randn(int(lengths.sum()), 2, UNITS, 2)
    seeds = [torch.randn(len(wx), 2, UNITS), torch.randn(len(lengths), 2, UNITS)]

    def results(wx, **choice):
        wx = wx.detach().requires_grad_()
        on = {"cu_seqlens": starts, "reverse": reverse}
        (h,), (last,) = rnnc.scan_packed(CELL, wx, **on, **choice)
        own = [seed.to(wx) for seed in seeds]
        return h.detach(), last.detach(), *torch.autograd.grad([h, last], wx, own)

    for got, wanted in zip(results(wx.cuda(), variant=kind), results(wx.double()), strict=True):
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=1e-4, atol=1e-4)


class Model(nn.Module):
    """A model that holds a module."""

    def __init__(self, kind, **options) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 6)
        self.rnn = rnnc.RNN(CELL, 6, UNITS, num_layers=2, heads=3, variant=kind, **options)

    def forward(self, x):
        return self.rnn(self.inner(x))[0]


def outputs(model, call, x):
    model.zero_grad()
    y = call(x)
    y.float().square().mean().backward()
    return {"y": y.detach()} | {name: p.grad.clone() for name, p in model.named_parameters()}


def test_compile_without_a_graph_break(kind):
    torch._dynamo.reset()
    model = Model(kind, bidirectional=True).cuda()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for shape in ((300, 4, 3), (7, 2, 3)):
        x = torch.randn(shape, device="cuda")
        wanted, got = (outputs(model, call, x) for call in (model, compiled))
        for name, value in wanted.items():
            torch.testing.assert_close(got[name], value, msg=name)


def test_export(kind):
    model, x = Model(kind).cuda(), torch.randn(300, 4, 3, device="cuda")
    exported = torch.export.export(model, (x,)).module()
    assert torch.equal(exported(x), model(x))


def test_autocast(kind):
    model, x = Model(kind).cuda(), torch.randn(300, 4, 3, device="cuda")

    def call(x):
        with torch.autocast("cuda", torch.bfloat16):
            y = model(x)
        assert y.dtype == torch.bfloat16
        return y

    wanted, got = outputs(model, model, x), outputs(model, call, x)
    for name, value in wanted.items():
        scale = value.abs().max().item()
        torch.testing.assert_close(got[name].float(), value, rtol=0, atol=0.05 * scale, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_known_calls_are_replayed_with_the_same_bits(kind, dtype):
    """In memory that held NaN before; then in a CUDA graph."""
    model = Model(kind).to("cuda", dtype)
    x = torch.randn(500, 4, 3, device="cuda", dtype=dtype)
    first = outputs(model, model, x)
    for _ in range(5):
        for size in (12, 16, 20, 22):
            torch.full((1 << size,), torch.nan, device="cuda")
        again = outputs(model, model, x)
        assert all(torch.equal(again[name], value) for name, value in first.items())
    graph, static = torch.cuda.CUDAGraph(), x.clone()
    with torch.no_grad(), torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        y = model(static)
    static.copy_(x.flip(0))
    graph.replay()
    with torch.no_grad():
        assert torch.equal(y, model(x.flip(0)))


def test_warmup_compiles_what_a_call_runs(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    model = Model(kind).cuda()
    lines = rnnc.warmup(model, (300, 4, 3))
    assert lines
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    outputs(model, model, torch.randn(300, 4, 3, device="cuda"))
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert not [path for path in after.keys() - before.keys() if "cubin" in path.name]


def test_tune_times_plans_on_the_steps_of_the_call(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    choose_plan.cache_clear()
    index = torch.cuda.current_device()
    shape = Shape(4, 128, batch=1, steps=16384, dtype="bfloat16")
    asked = Asked(CELL, shape, device_limits(index))
    found = tune(asked, index, candidates=4)
    assert trial_steps(asked) == 16384
    assert {trial.plan.forward.kind for trial in found.trials} & set(KINDS)
    assert [trial.failure for trial in found.trials] == [""] * len(found.trials)
    assert recall(asked) == found.winner
    choose_plan.cache_clear()


def test_memory_beside_inputs_and_outputs(kind):
    """Of a training step: saved values, records of tiles and partial sums, and no copy of wx."""
    steps, batch, units = 4096, 4, 512
    on = {"device": "cuda", "dtype": torch.bfloat16}
    wx = torch.randn(batch, steps, 1, units, 2, **on).requires_grad_()
    b = torch.zeros(2, 1, units, **on).requires_grad_()
    plan = plan_for(CELL, Shape(1, units, batch, steps), device_limits(0), kind)
    h, d_wx = batch * steps * units * 2, wx.numel() * 2

    def step() -> None:
        (y,), _ = rnnc.scan(CELL, wx, None, b, variant=kind)
        torch.autograd.grad(y, (wx, b), y.detach())

    step()
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    peak = torch.cuda.max_memory_allocated() - before
    records, sums = 0, 2 * batch * 2 * units * 4
    if kind == "scan":
        tiles = max(kernel.tiles(steps) for kernel in (plan.forward, plan.backward))
        records = 24 * units * batch * tiles
        sums *= tiles
    # d_wx takes the place of saved gates, if the forward saves any.
    assert peak < h + d_wx + records + sums + 4 * 2**20, (peak, h, d_wx, records, sums)
