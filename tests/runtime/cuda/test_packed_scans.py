"""Packed sequences by scan and walk plans: one row, whose kernels run as C++ on the CPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Input, Param, State, gate, sigmoid
from rnnc.codegen.cuda.limits import limits_of
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.call.ragged import Places
from rnnc.runtime.cuda import choose, target
from rnnc.runtime.cuda.choose import PlanQuestion

from ...linear_scans import small_tiles

pytestmark = pytest.mark.usefixtures("poisoned")


@rnnc.cell
def kept(
    h: State,
    y: State,
    *,
    f: Gate = gate(recurrent=False),
    n: Gate = gate(recurrent=False),
    decay: Input,
    slope: Param,
):
    """An affine state and an output, with an input and a param."""
    h = decay * sigmoid(f) * h + slope * n
    return h, h * sigmoid(f)


def results(backend, lengths, reverse, reset, tensors, **choice):
    """Every output and every gradient of a call."""
    wx, b, decay, slope = (t.detach().clone().requires_grad_() for t in tensors)
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
    over_time, last = rnnc.scan_packed(
        kept, wx, None, b, cu_seqlens=starts, max_seqlen=max(lengths), params={"slope": slope},
        inputs={"decay": decay}, reverse=reverse, reset=reset, backend=backend, **choice,
    )  # fmt: skip
    found = [*over_time, *last]
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(t.shape, generator=generator).to(t.dtype) for t in found]
    gradients = torch.autograd.grad(found, (wx, b, decay, slope), seeds)
    return [each.detach() for each in (*found, *gradients)]


@pytest.fixture
def tensors():
    total, heads, dim = 41, 2, 5
    return (
        torch.randn(total, heads, dim, 2),
        torch.randn(2, heads, dim),
        torch.rand(total, 1, 1),
        torch.randn(heads, dim),
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [(3, 0, 30, 8, 0), (41,), (0, 1, 40)], ids=str)
@pytest.mark.parametrize("kind", ["scan", "walk"])
def test_each_sequence_begins_anew(
    kind, lengths, reverse, tensors, emulated_blocks, gathered, monkeypatch
):
    small_tiles(monkeypatch)
    monkeypatch.setattr(target, "runs_as_one_row", lambda *_: True)
    for reset in (None, torch.rand(41) < 0.2):
        rest = lengths, reverse, reset
        wanted = results("reference", *rest, [t.double() for t in tensors])
        gathered.clear()
        got = results("simulated", *rest, tensors, variant=kind)
        assert {plan.kind for plan in emulated_blocks[-2:]} == {kind}
        assert not gathered
        for each, exact in zip(got, wanted, strict=True):
            assert each.shape == exact.shape
            torch.testing.assert_close(each.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.fixture
def gathered(monkeypatch):
    """What was copied into padded rows."""
    found = []
    monkeypatch.setattr(Places, "pad", lambda self, rows: found.append(rows) or pad(self, rows))
    return found


def test_nothing_is_copied_into_padded_rows(tensors, emulated_blocks, gathered):
    """But for calls from states of the caller's, and by plans that take longer as one row."""
    starts = torch.tensor([0, 11, 41], dtype=torch.int32)

    def call(states=None, variant="scan"):
        gathered.clear()
        wx, b, decay, slope = tensors
        rnnc.scan_packed(
            kept, wx, None, b, states, cu_seqlens=starts, params={"slope": slope},
            inputs={"decay": decay}, backend="simulated", variant=variant,
        )  # fmt: skip
        return len(gathered)

    assert call() == 0
    assert call(variant="walk") > 0
    assert call(states=[torch.zeros(2, 2, 5)] * 2) > 0


pad = Places.pad


def test_auto_takes_one_row_where_it_takes_no_longer(monkeypatch):
    """Few sequences of all lengths, whose padded rows take many steps one after the other."""
    monkeypatch.setattr("rnnc.runtime.cuda.choose.device_limits", lambda _: limits_of("H200"))
    monkeypatch.setattr(choose, "recall", lambda _: None)
    choose._kind_and_cost.cache_clear()
    hgrn, lstm = rnnc.cells.hgrn, rnnc.cells.lstm

    def taken(cell, batch, total, steps, variant="auto", units=512):
        sizes = cell, 1, units, batch, torch.bfloat16, 0, Choice(variant), False
        return choose.runs_as_one_row(PlanQuestion(*sizes), total, steps)

    assert taken(hgrn, 4, 40_000, 30_000)
    assert not taken(hgrn, 64, 64 * 1024, 1024)
    assert taken(hgrn, 64, 64 * 1024, 1024, "scan")
    assert not taken(hgrn, 4, 40_000, 30_000, "walk")
    assert taken(hgrn, 4, 40_000, 30_000, "walk", units=65_536)
    assert taken(rnnc.cells.sru, 4, 40_000, 30_000, units=65_536)
    assert not taken(rnnc.cells.sru, 4, 40_000, 30_000)
    assert not taken(rnnc.cells.sru, 4, 40_000, 30_000, "scan")
    assert not taken(lstm, 4, 40_000, 30_000, units=64)
    choose._kind_and_cost.cache_clear()
