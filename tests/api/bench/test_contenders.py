"""The contenders of `rnnc bench`: who takes part, and with which inputs."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.bench import measure as bench
from rnnc.bench.contenders.choice import contenders_for
from rnnc.bench.contenders.contender import KINDS
from rnnc.bench.contenders.eager_loops import plain_loop
from rnnc.bench.contenders.loop_steps import STEPS
from rnnc.bench.inputs import Inputs
from rnnc.bench.measure import Settings
from rnnc.bench.results import Result
from rnnc.bench.rows import ROWS, Row
from rnnc.codegen.cuda.kinds import variants

ROW = Row("lstm", 2, 4, 2, 6)


@pytest.mark.parametrize("name", STEPS)
def test_plain_loops_are_the_cells(name):
    """With biases and params that differ from each other, and every gradient."""
    cell = rnnc.cells.get(name)
    inputs = Inputs(cell, Row(name, 2, 5, 3, 7), "float32", "cpu")
    wx, R, b, params = inputs.wx, inputs.R, inputs.b, inputs.params
    wx, R, b = (None if t is None else t.detach().double().requires_grad_() for t in (wx, R, b))
    params = {n: torch.randn_like(p).double().requires_grad_() for n, p in params.items()}
    leaves = [t for t in (wx, R, b, *params.values()) if t is not None]
    (wanted, *_), _ = rnnc.scan(cell, wx, R, b, params=params, backend="reference")
    found = plain_loop(name, wx, R, b, params)
    torch.testing.assert_close(found, wanted)
    seed = torch.randn_like(found)
    slopes = torch.autograd.grad(found, leaves, seed)
    torch.testing.assert_close(slopes, torch.autograd.grad(wanted, leaves, seed))
    if name in ("lstm", "gru", "elman", "slstm"):
        (without, *_), _ = rnnc.scan(cell, wx, R, backend="reference")
        torch.testing.assert_close(plain_loop(name, wx, R), without)


def test_resets_are_of_a_hundredth_of_all_steps():
    row, cell = Row("lstm", 1, 3, 4, 500), rnnc.cells.lstm
    (contender,) = contenders_for(row, "cpu", ["float32"], ["resets"])
    assert (contender.name, contender.ours, contender.note != "") == ("rnnc, 1% resets", True, True)
    inputs = Inputs(cell, row, "float32", "cpu")
    plain = next(iter(contenders_for(row, "cpu", ["float32"], ["auto"])))
    with torch.no_grad():
        found, whole = (each.prepare(inputs).run() for each in (contender, plain))
    fresh = (found - whole).abs().amax((-1, -2)) > 1e-6
    assert 0.01 < fresh.float().mean() < 1  # rows differ from their first reset on


def test_inputs_of_a_cell_are_given_to_each_contender():
    cell, row = rnnc.cells.cfc, Row("cfc", 2, 5, batch=3, steps=7)
    inputs = Inputs(cell, row, "float32", "cpu")
    chosen = contenders_for(row, "cpu", ["float32"], KINDS)
    results = {c.name: c.prepare(inputs).run() for c in chosen if c.ours or c.name == "eager loop"}
    zoneout = {c.name for c in chosen if "zoneout" in c.name}
    assert results.keys() - zoneout == {"rnnc", "rnnc, 1% resets", "rnnc.RNN", "eager loop"}
    assert inputs.given["t"].shape == (7, 3)
    torch.testing.assert_close(results["rnnc"], results["eager loop"])


def names(number: int, *kinds: str) -> list[str]:
    row = ROWS[number]
    chosen = contenders_for(row, "cuda", ["bfloat16", "float16"], kinds or KINDS)
    return [f"{c.name} {c.dtype}" for c in chosen]


def test_every_variant_takes_part_and_torch_in_its_fastest_dtype_too():
    row = ROWS[7]
    chosen = contenders_for(row, "cuda", ["bfloat16"], ["scan", "nn"], ["float16"])
    assert [(c.name, c.dtype) for c in chosen if not c.ours] == [
        ("nn.LSTM", "bfloat16"),
        ("nn.LSTM", "float16"),
    ]
    assert [c.variant for c in chosen if c.ours] == list(variants())


def test_flashrnn_takes_part_once_with_what_it_has():
    assert names(2, "flashrnn") == [
        "FlashRNN cuda_fused bfloat16",
        "FlashRNN triton_fused bfloat16",
    ]
    assert names(7, "flashrnn", "flashrnn-alternating") == [
        "FlashRNN cuda_fused bfloat16",
        "FlashRNN cuda bfloat16",
    ]
    assert names(16, "flashrnn", "flashrnn-alternating") == ["FlashRNN cuda bfloat16"]
    assert names(3, "flashrnn-packed") == ["FlashRNN cuda_fused, wx packed bfloat16"]
    assert not names(12, "nn")  # torch has no sLSTM


@pytest.mark.parametrize("number", [2, 7, 14, 16])
def test_flashrnn_gets_its_layouts(number, monkeypatch):
    """In its own memory order, so that its `contiguous()` copies nothing; all gradients. Packed as
    documented where that is asked for.
    """
    orders = {"cuda_fused": "TBHDG", "cuda": "TBHGD", "triton_fused": "BTGHD"}
    seen, packed = [], []

    def flashrnn(wx, R, b, states=None, function="lstm", config=None, backend="", dtype=""):
        order = "BTGHD" if packed else orders[backend]
        assert wx.permute(["BTGHD".index(axis) for axis in order]).is_contiguous()
        assert dtype == "float32"
        seen.append(backend)
        gates, heads, dim = wx.shape[2:]
        assert R.shape == (gates, heads, dim, dim)
        assert b.shape == (4 if function == "gru" else gates, heads, dim)
        h = wx.sum(2) + R.sum() + b.sum()
        return torch.stack([h, h]), None

    monkeypatch.setitem(sys.modules, "flashrnn", SimpleNamespace(flashrnn=flashrnn, __spec__=1))
    row = ROWS[number].resized(head_dim=4, batch=2, steps=40)
    cell = rnnc.cells.get(row.cell)
    kinds = ["flashrnn", "flashrnn-alternating"]
    chosen = contenders_for(row, "cuda", ["float32"], kinds)
    chosen += contenders_for(row, "cuda", ["float32"], ["flashrnn-packed"])
    for contender in chosen:
        packed[:] = ["yes"] * contender.name.endswith("packed")
        call = contender.prepare(Inputs(cell, row, "float32", "cpu"))
        assert [g.shape for g in call.step()] == [t.shape for t in call.inputs]
    assert [c.name.split()[1].rstrip(",") for c in chosen[:-1]] == list(dict.fromkeys(seen))


def test_a_missing_flashrnn_is_left_out():
    if "flashrnn" in sys.modules:
        pytest.skip("it is there")
    (contender,) = contenders_for(ROWS[7], "cuda", ["float32"], ["flashrnn"])
    inputs = Inputs(rnnc.cells.lstm, ROW, "float32", "cpu")
    result = Result(contender)
    assert bench._prepared(result, [inputs], Settings("cpu")) == []
    assert "pip install flashrnn" in result.absent


def test_zoneout_is_of_the_same_weights_and_its_mean_draws_nothing():
    row, cell = Row("lstm", 2, 3, 2, 40), rnnc.cells.lstm
    contenders = contenders_for(row, "cpu", ["float32"], ["zoneout"])
    assert [c.name for c in contenders] == ["rnnc, 10% zoneout", "rnnc, 10% zoneout, its mean"]
    inputs = Inputs(cell, row, "float32", "cpu")
    drawn, mean = (contender.prepare(inputs) for contender in contenders)
    assert not torch.equal(drawn.run(), drawn.run())
    (wanted, *_), _ = rnnc.scan(
        rnnc.zoneout(cell, 0.1), inputs.wx, inputs.R, inputs.b, sample=False, backend="reference"
    )
    torch.testing.assert_close(mean.run(), wanted)
    assert [g.shape for g in drawn.step()] == [t.shape for t in inputs.leaves()]
