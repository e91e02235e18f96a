"""The rooflines of a report: other packages as measured, and the sources of a GPU's figures."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.report.contents import Report
from rnnc.report.figures.limits import data

ROOT = Path(__file__).parents[3]
LSTM = rnnc.cells.lstm


def rooflines(*sizes, dtype="bfloat16", gpu="H200"):
    return Report.of(LSTM, rnnc.Shape(*sizes, dtype=dtype), limits_of(gpu)).rooflines


def test_other_packages_are_of_the_same_cell_dtype_and_batch():
    known = {(p["name"], p["forward_ms"]): p for p in data("peers.json")["peers"]}
    for dtype in ("bfloat16", "float16"):
        found = rooflines(1, 768, 16, dtype=dtype).peers
        assert found[0].same
        assert found[0].size == "1 × 768"
        for peer in found:
            own = known[peer.name, round(peer.forward * 1024 / 1000, 6)]
            assert (own["cell"], own["dtype"], own["batch"]) == ("lstm", dtype, 16)
    assert {p.name for p in rooflines(1, 768, 16, dtype="float16").peers} == {"cuDNN"}
    assert rooflines(12, 64, 15).peers == ()


def test_other_packages_of_this_size_are_dots_at_their_measured_times():
    lines = rooflines(12, 64, 16)
    (own,) = (
        p
        for p in data("peers.json")["peers"]
        if p["name"] == "FlashRNN 1.0.8" and p["head_dim"] == 64
    )
    for plot in (lines.latency, lines.memory):
        names = [dot.name for dot in plot.dots if dot.other]
        assert names == ["FlashRNN 1.0.8, forward", "FlashRNN 1.0.8, backward"]
    forward, backward = (dot.y for dot in lines.latency.dots if dot.other)
    assert forward == pytest.approx(own["forward_ms"] / 1.024)
    assert backward == pytest.approx((own["both_ms"] - own["forward_ms"]) / 1.024)
    operations = 2 * 4 * 64 * 16 * 12 * 64  # of a step: four gates of heads of 64 units
    rates = [dot.y for dot in lines.memory.dots if dot.other]
    assert rates == pytest.approx([operations / forward / 1e6, operations / backward / 1e6])


def test_a_device_has_the_figures_of_its_preset():
    preset = limits_of("H200")
    shape = rnnc.Shape(12, 64)
    device = Report.of(LSTM, shape, replace(preset, name="NVIDIA H200")).rooflines
    own = Report.of(LSTM, shape, preset).rooflines
    assert device.memory == own.memory
    assert device.latency == own.latency
    assert Report.of(LSTM, shape, replace(preset, name="NVIDIA H200 NVL")).rooflines.memory is None


@pytest.mark.parametrize(("sizes", "gpu"), [((12, 32, 16), "H200"), ((12, 64, 16), "A100")])
def test_no_dot_is_of_another_size_or_gpu(sizes, gpu):
    lines = rooflines(*sizes, gpu=gpu)
    assert not any(dot.other for plot in (lines.latency, lines.memory) for dot in plot.dots)


def test_the_page_names_the_source_of_other_packages(page, parsed):
    text = parsed(page(LSTM)).text
    assert "FlashRNN 1.0.8" in text
    assert "rnnc bench --rows 3,2,5,7" in text
    assert "benchmarks/results/cuda-h200-2026-11-21-flashrnn.json" in text


def test_the_times_are_those_of_the_committed_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "tables"))
    path = ROOT / "benchmarks" / "tables" / "report_peers.py"
    spec = importlib.util.spec_from_file_location("report_peers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.peers() == data("peers.json")


def test_every_figure_of_a_gpu_has_a_source():
    for gpu in data("gpus.json")["gpus"]:
        limits_of(gpu["name"])
        for figure in ("tensor_tflops", "bandwidth_gb_s"):
            assert gpu["sources"][figure].count("https://") >= 1
