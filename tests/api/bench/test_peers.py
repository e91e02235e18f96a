"""`rnnc bench --peers`: who computes the same does, who cannot take part has a reason."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.bench.cases import RowCase, float32_products
from rnnc.bench.contenders import attention as attention_room
from rnnc.bench.contenders import eager_loops, flashrnn
from rnnc.bench.contenders.choice import contenders_for
from rnnc.bench.contenders.contender import KINDS
from rnnc.bench.contenders.layers import other_layers
from rnnc.bench.inputs import Inputs
from rnnc.bench.measure import Settings, measure
from rnnc.bench.rows import BenchError, Row
from rnnc.bench.suites import checks
from rnnc.bench.suites.cases import peer_cases
from rnnc.bench.time_limit import within
from rnnc.cli.app import app
from rnnc.cli.bench import suites as command
from rnnc.codegen.cuda.limits import limits_of
from typer.testing import CliRunner

NEW = ("torchrl", "haste", "attention", "fla", "fla-gla", "accelerated-scan")
LAYER = Row("lstm", 1, 6, 3, 5)
SETTINGS = Settings("cpu", repeat=2, queued=True, ready=60)


def chosen(row: Row, dtype: str, *kinds: str) -> dict[str, object]:
    found = contenders_for(row, "cuda", [dtype], kinds or NEW)
    return {c.name: c for c in found if c.name not in ("eager loop",)}


def test_each_takes_part_where_it_has_kernels():
    half = chosen(Row("lstm", 12, 64), "bfloat16")
    gla = ["fla fused_recurrent_gla", "fla chunk_gla"]
    assert list(half) == ["torch SDPA", "fla chunk_hgrn", *gla, "accelerated-scan"]
    assert not {*gla} & chosen(Row("lstm", 1, 768), "bfloat16").keys()
    single = chosen(Row("gru", 1, 64), "float32")
    assert {"TorchRL", "Haste"} <= single.keys()
    assert {c.note for c in (single["TorchRL"], single["Haste"])} == {""}
    assert "Haste" in chosen(Row("gru", 1, 64), "float16")
    assert not {"Haste", "TorchRL"} & chosen(Row("lstm", 1, 64), "float16").keys()
    assert not list(other_layers("haste", Row("slstm", 1, 64), "float32"))


def test_another_function_is_never_the_best_peer():
    for row in (Row("lstm", 12, 64), Row("hgrn", 12, 64)):
        assert all(c.note.startswith("another function") for c in chosen(row, "bfloat16").values())
    heads = chosen(Row("lstm", 2, 64), "float32")
    assert heads["TorchRL"].note == heads["Haste"].note == "one head of 64 only"


@pytest.mark.parametrize("kind", ["torchrl", "haste", "fla", "fla-gla", "accelerated-scan"])
def test_without_a_gpu_it_is_left_out_with_a_reason(kind):
    for contender in chosen(LAYER, "float32", kind).values():
        with pytest.raises(BenchError, match="device 'cpu'"):
            contender.prepare(Inputs(rnnc.cells.lstm, LAYER, "float32", "cpu"))


def test_attention_is_torchs_over_the_same_units(monkeypatch):
    monkeypatch.setattr(attention_room, "HEAD_DIM", 3)
    (contender,) = attention_room.attention(LAYER, "float32")
    assert "2 x 3" in contender.note
    call = contender.prepare(Inputs(rnnc.cells.lstm, LAYER, "float32", "cpu"))
    q, k, v = call.inputs
    scores = (q @ k.mT * 3**-0.5).masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf)
    torch.testing.assert_close(call.run(), scores.softmax(-1) @ v)
    assert [g.shape for g in call.step()] == [(3, 2, 5, 3)] * 3


@pytest.mark.parametrize("kind", ["compile-step", "compile"])
def test_compiled_loops_are_the_cell(kind, monkeypatch):
    """Traced as a whole, without a code generator: that compiles for a minute."""
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **more: compiled(f, backend="eager", **more))
    row = Row("lstm", 2, 3, 2, 4)
    inputs = Inputs(rnnc.cells.lstm, row, "float32", "cpu")
    (contender,) = eager_loops.loops(row, "float32", [kind])
    call = contender.prepare(inputs)
    wanted = eager_loops.plain_loop("lstm", inputs.wx, inputs.R, inputs.b)
    torch.testing.assert_close(call.run(), wanted)
    exact = torch.autograd.grad(wanted, call.inputs, call.seed)
    torch.testing.assert_close(call.step(), exact)
    torch.compiler.reset()


def test_rnnc_answers_what_flashrnn_asks_of_the_gpu(monkeypatch):
    def function():
        return None

    module = SimpleNamespace(get_gpu_info=None)
    function.__module__ = "flashrnn.inner"
    monkeypatch.setitem(sys.modules, "flashrnn.inner", module)
    monkeypatch.setitem(sys.modules, "flashrnn", SimpleNamespace(flashrnn=function))
    monkeypatch.setattr(flashrnn, "device_limits", lambda _: limits_of("H200"))
    assert flashrnn._imported() is function
    assert module.get_gpu_info(0) == {
        "maxThreadsPerBlock": 1024,
        "regsPerMultiprocessor": 65536,
        "multiProcessorCount": 132,
        "sharedMemPerBlockOptin": 232448,
    }


def test_the_cases_vary_what_the_page_shows():
    for device in ("cpu", "cuda"):
        names = [str(case) for case in peer_cases(device)]
        assert len(set(names)) == len(names)
    rows = [case.row for case in peer_cases("cuda")]
    plain = [row for row in rows if row.cell == "lstm" and row.hidden == 768]
    assert {r.head_dim for r in plain} == {16, 32, 64, 128, 256, 384, 768}
    for dim in (64, 768):
        own = [r for r in plain if r.head_dim == dim]
        assert {r.batch for r in own} == {1, 2, 16, 64, 128}
        assert {r.steps for r in own} >= {128, 512, 1024, 4096, 8192}


def test_checks_see_a_wrong_gradient(monkeypatch):
    """rnnc's and torch's results are right; an error of a hundredth in one gradient is found."""
    found = {(c.cell, c.name): c for c in checks.check_all("cpu", (4, 2, 9), KINDS)}
    for key in (("lstm", "rnnc"), ("gru", "nn.GRU"), ("h = a h + b", "rnnc hgrn")):
        assert max(found[key].errors.values()) < 1e-6
        assert len(found[key].over_time) == 5
    assert "device 'cpu'" in found["gru", "Haste"].failure

    def ours(cell, units, to):
        right = original(cell, units, to)

        def wrong(given):
            shifted = given["weight_hh_l0"] * 1.01
            fixed = given["weight_hh_l0"].detach() * 0.01
            return right(given | {"weight_hh_l0": shifted - fixed})

        return wrong

    original = checks._ours
    monkeypatch.setattr(checks, "_ours", ours)
    bad = next(checks.check_all("cpu", (4, 2, 9), ["auto"]))
    assert bad.errors["d_weight_hh_l0"] == pytest.approx(0.01, rel=1e-3)
    assert bad.errors["d_weight_ih_l0"] < 1e-5


def haste(cell: str):
    """A layer with Haste's parameters, gates in Haste's order: i, g, f, o or z, r, n."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            count = {"lstm": 4, "gru": 3}[cell]
            names = ["kernel", "recurrent_kernel", "bias", *(["recurrent_bias"] * (cell == "gru"))]
            for name in names:
                sizes = (4, 4 * count) if "kernel" in name else (4 * count,)
                setattr(self, name, torch.nn.Parameter(torch.zeros(sizes)))

        def forward(self, x):
            h = c = x.new_zeros(x.shape[1:])
            outputs = []
            for step in x:
                wx, rh = step @ self.kernel + self.bias, h @ self.recurrent_kernel
                if cell == "lstm":
                    i, g, f, o = (wx + rh).chunk(4, 1)
                    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                    h = o.sigmoid() * c.tanh()
                else:
                    z, r, n = wx.chunk(3, 1)
                    rz, rr, rn = (rh + self.recurrent_bias).chunk(3, 1)
                    z = (z + rz).sigmoid()
                    h = z * h + (1 - z) * (n + (r + rr).sigmoid() * rn).tanh()
                outputs.append(h)
            return torch.stack(outputs), None

    return Layer()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_haste_gets_torchs_weights_in_its_order(cell, monkeypatch):
    monkeypatch.setattr(checks, "haste_layer", lambda cell, *_: haste(cell))
    (found,) = checks._layers("cpu", (4, 2, 5), ["haste"], 60, cell, "float32", "ieee")
    assert not found.failure
    assert max(found.errors.values()) < 1e-6


def test_the_record_has_the_times_and_the_reasons():
    case = RowCase(Row("lstm", 1, 4, 2, 40), ("float32",), ("auto", "nn", "fla"))
    found = measure(case, rnnc.cells.lstm, SETTINGS).record()
    assert [c["name"] for c in found["contenders"]] == ["rnnc", "nn.LSTM"]
    assert found["contenders"][0]["forward_backward"]["median"] > 0
    assert found["left_out"].keys() == {"fla chunk_hgrn, float32"}


def test_a_contender_that_compiles_for_too_long_leaves_the_others(monkeypatch):
    """No library's `except Exception` keeps it; the reason says what happened."""

    def endless(inputs):
        try:
            while True:
                time.sleep(0.01)
        except Exception:
            return

    monkeypatch.setattr(attention_room, "_attention", endless)
    case = RowCase(Row("lstm", 1, 4, 2, 40), ("float32",), ("attention", "nn"))
    found = measure(case, rnnc.cells.lstm, replace(SETTINGS, ready=3.0)).record()
    assert [c["name"] for c in found["contenders"]] == ["nn.LSTM"]
    assert found["left_out"] == {"torch SDPA, float32": "it was not compiled within 3 s"}


def test_a_backward_that_compiles_for_too_long_is_stopped_too():
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, d_x):
            assert not torch.autograd.is_multithreading_enabled()
            while True:
                time.sleep(0.01)

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(TimeoutError, match="not compiled within 0 s"), within(0.2):
        Slow.apply(x).sum().backward()
    assert torch.autograd.is_multithreading_enabled()


def test_exact_products_are_a_setting_of_the_case_alone():
    flags = torch.backends.cudnn.rnn
    before = flags.fp32_precision
    with float32_products("ieee"):
        assert flags.fp32_precision == "ieee"
    assert flags.fp32_precision == before


def test_rnnc_s_kernels_are_compiled_for_the_products_of_the_case():
    h200, row = limits_of("H200"), Row("lstm", 1, 128, 64, 128)
    tf32, ieee = (
        {
            kernel.tf32
            for kernel in command._kernels(RowCase(row, ("float32",), (), float32=how), h200)
        }
        for how in ("tf32", "ieee")
    )
    assert (tf32, ieee) == ({True}, {False})


def test_the_command_writes_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_CHECKED", {"cpu": (3, 2, 8)})
    path = tmp_path / "found.json"

    def run(*words: str) -> str:
        words = ("bench", "--peers", "--device", "cpu", "--repeat", "2", *words)
        outcome = CliRunner().invoke(app, [*words, "--json", str(path)])
        assert outcome.exit_code == 0, outcome.output
        return outcome.output

    nn = ("--contenders", "nn")
    assert "relative error against float64" in run("--cases", "1", *nn)
    first = json.loads(path.read_text())
    assert [case["cell"] for case in first["cases"]] == ["lstm"]
    names = [c["name"] for c in first["cases"][0]["contenders"]]
    assert names == ["nn.LSTM", "eager loop"]
    run("--cases", "1", *nn)
    assert json.loads(path.read_text())["cases"] == first["cases"]
    first["machine"]["haste_pytorch"] = "0.5"  # not there in the next run
    path.write_text(json.dumps(first))
    run("--cases", "gru", *nn, "--limit", "0")
    assert json.loads(path.read_text())["cases"] == first["cases"]
    assert "nn.GRU" in run("--cases", "gru", *nn)
    both = json.loads(path.read_text())
    assert [case["cell"] for case in both["cases"]] == ["lstm", "gru"]
    assert [check["name"] for check in both["checks"]] == ["nn.LSTM", "nn.GRU"]
    assert both["machine"] == first["machine"]
    assert len(both["commands"]) == 2
    assert both["command"].count("rnnc bench --peers") == 2
