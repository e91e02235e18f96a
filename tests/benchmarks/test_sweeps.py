"""`sweeps.py`: points are measured once, kept in the file and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from rnnc.bench import report
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from typer.testing import CliRunner

SMALL = {"head-dim": [(1, 4, 2, 5), (1, 8, 2, 5)], "heads": [(1, 8, 2, 5), (2, 4, 2, 5)]}


@pytest.fixture
def sweeps(script, monkeypatch):
    pytest.importorskip("matplotlib")
    module = script("sweeps")
    small = {name: module.SWEEPS[name]._replace(sizes=sizes) for name, sizes in SMALL.items()}
    monkeypatch.setattr(module, "SWEEPS", small)
    return module


def run(sweeps, folder: Path, *words: str, device: str = "cpu") -> tuple[str, dict]:
    import typer

    app = typer.Typer()
    app.command()(sweeps.main)
    words = ("--device", device, "--repeat", "2", "--output", str(folder), *words)
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output
    files = list(folder.glob("*.json"))
    return outcome.output, json.loads(files[0].read_text()) if files else {}


def test_points_are_measured_once_and_drawn(sweeps, tmp_path, monkeypatch):
    _, content = run(sweeps, tmp_path)
    assert list(content["points"]) == [
        "1 x 4, batch 2, 5 steps",
        "1 x 8, batch 2, 5 steps",
        "2 x 4, batch 2, 5 steps",
    ]
    one, _, two = content["points"].values()
    assert one["ours_us"]["forward"] > 0
    # Times of so small a size say nothing about each other where other programs run.
    assert one["nn"]["us"]["forward"] > 0
    assert one["nn"]["us"]["forward_backward"] > 0
    assert "nn" not in two, "of one head alone"
    assert content["sweeps"]["heads"]["points"] == list(content["points"])[1:]
    assert [p.suffix for p in sorted(tmp_path.iterdir())] == [".json", ".png"]
    assert str(tmp_path) not in json.dumps(content)

    def refuse(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(sweeps, "measure", refuse)
    _, again = run(sweeps, tmp_path)
    assert again["points"] == content["points"]


def test_other_code_is_measured_again(sweeps, tmp_path, monkeypatch):
    run(sweeps, tmp_path)
    monkeypatch.setattr(sweeps, "package_digest", lambda: "another")
    _, content = run(sweeps, tmp_path, "--sweep", "heads")
    assert {p["package"] for p in content["points"].values()} == {"another"}
    assert len(content["points"]) == 2


def test_a_limit_leaves_points_for_another_call(sweeps, tmp_path):
    said, content = run(sweeps, tmp_path, "--limit", "0")
    assert "call again for the rest" in said
    assert not content
    _, content = run(sweeps, tmp_path)
    assert len(content["points"]) == 3


def test_a_gpu_s_points_name_their_plan_and_its_parts(sweeps, tmp_path, monkeypatch):
    h200 = limits_of("H200")

    def choose(cell, row, dtype):
        return plan_for(cell, Shape(row.heads, row.head_dim, row.batch), h200)

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(report, "machine", lambda _: {"device": "NVIDIA H200", "torch": "2.11"})
    monkeypatch.setattr(sweeps, "device_limits", lambda _: h200)
    monkeypatch.setattr(sweeps, "chosen_plan", choose)
    monkeypatch.setattr(sweeps, "compile_ahead", lambda rows, *_: float(len(rows)))
    took = {"forward": 1.0, "forward_backward": 3.0}
    monkeypatch.setattr(sweeps, "_microseconds", lambda *_: took)
    sizes = [(1, 32, 16, 9), (1, 64, 16, 9), (1, 768, 16, 9)]
    head_dims = sweeps.SWEEPS["head-dim"]._replace(sizes=sizes)
    monkeypatch.setitem(sweeps.SWEEPS, "head-dim", head_dims)
    said, content = run(sweeps, tmp_path, device="cuda")
    small, middle, large = list(content["points"].values())[:3]
    assert (small["variant"], middle["variant"], large["variant"]) == (
        *("block", "cluster", "grid"),
    )
    assert sum(middle["floor_ns"]["backward"].values()) == pytest.approx(
        middle["planned_ns"]["backward"], abs=1
    )
    floor = large["floor_ns"]
    assert sum(floor["forward"].values()) == pytest.approx(large["planned_ns"]["forward"], abs=1)
    assert set(floor["backward"]) == {"exchange", "product", "pointwise"}
    assert "nn.LSTM float16 1.00 / 3.00 us per step" in said
    assert sorted(p.name[:12] for p in tmp_path.iterdir()) == ["sweeps-h200-"] * 2


def test_a_point_without_memory_is_no_end(sweeps):
    def fail(_):
        raise torch.OutOfMemoryError("out of memory\nwith details")

    contender = sweeps.Contender("rnnc", "float32", True, "wx ready", fail)
    row = sweeps._row((1, 4, 2, 5))
    said = sweeps._microseconds(contender, row, "cpu", 2)
    assert said == "OutOfMemoryError: out of memory"


def test_the_sweeps_that_ship_reach_what_they_should(script):
    sizes = {name: s.sizes for name, s in script("sweeps").SWEEPS.items()}
    assert {s[1] for s in sizes["head-dim"]} >= {16, 2048}
    assert {s[2] for s in sizes["batch-768"]} == {1, 2, 4, 8, 16, 32, 64, 128, 256}
    assert (min(sizes["steps-64"])[3], max(sizes["steps-64"])[3]) == (128, 8192)
    assert all(heads * dim == 768 for heads, dim, *_ in sizes["heads"])
