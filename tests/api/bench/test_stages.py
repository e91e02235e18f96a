"""`rnnc bench --stages`: its cases, its contenders and what it writes."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.bench.contenders import eager_loops, layers, loop_steps
from rnnc.bench.inputs import Inputs
from rnnc.bench.rows import BenchError, Row
from rnnc.bench.suites.cases import stage_cases
from rnnc.bench.tables import cases_table
from rnnc.cli.app import app
from typer.testing import CliRunner


def test_the_cases_are_those_of_the_docs():
    sizes = {(12, 64), (3, 256), (1, 768)}
    for name in ("gru_reset_first", "joint_norm_lstm", "lem"):
        own = [case.row for case in stage_cases("cuda", name)]
        assert {(row.heads, row.head_dim) for row in own} == sizes
        assert {(row.batch, row.steps) for row in own} == {(16, 1024)}
    (block,) = stage_cases("cuda", "block")
    assert (block.row.heads, block.row.head_dim, block.row.steps) == (8, 64, 512)
    assert round(block.published.microseconds.forward) == 55
    for case in (*stage_cases("cuda"), *stage_cases("cpu")):
        assert rnnc.cells.get(case.row.cell).has_stages
        assert case.row.cell in loop_steps.STEPS
        assert {"auto", "resets", "torch-loop", "compile-graph"} <= set(case.kinds)


def test_all_steps_in_a_graph_are_the_loop(monkeypatch):
    """A graph is recorded and replayed on a GPU; here a call stands for its replay."""
    compiled, graphed = torch.compile, []
    monkeypatch.setattr(torch, "compile", lambda f, **more: compiled(f, backend="eager", **more))
    monkeypatch.setattr(
        torch.cuda, "make_graphed_callables", lambda run, given: graphed.append(given) or run
    )
    cell, row = rnnc.cells.block_gru, Row("block_gru", 2, 3, 2, 4)
    inputs = Inputs(cell, row, "float32", "cpu")
    (contender,) = eager_loops.loops(row, "float32", ["compile-graph"])
    with pytest.raises(BenchError, match="a GPU, which has CUDA graphs"):
        contender.prepare(inputs)
    object.__setattr__(inputs, "device", "cuda")
    inputs.__dict__["d_h"] = torch.randn(4, 2, 2, 3)
    for name in ("wx", "R", "b", "params"):
        inputs.__dict__[name] = getattr(Inputs(cell, row, "float32", "cpu"), name)
    call = contender.prepare(inputs)
    given = inputs.wx, inputs.R, inputs.b, inputs.params
    wanted = eager_loops.plain_loop("block_gru", *given)
    torch.testing.assert_close(call.run(), wanted)
    torch.testing.assert_close(call.step(), torch.autograd.grad(wanted, call.inputs, call.seed))
    assert [len(leaves) for leaves in graphed] == [4]
    torch.compiler.reset()


def test_speechbrain_gets_rows_first(monkeypatch):
    class Layer(torch.nn.Linear):
        def __init__(self, size, shape, ff_normalization):
            super().__init__(size, size)
            assert (tuple(shape), ff_normalization) == ((2, 5, 4), "layernorm")

        def forward(self, x):
            return super().forward(x), None

    room = SimpleNamespace(SLiGRU=Layer)
    monkeypatch.setitem(sys.modules, "speechbrain", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "speechbrain.nnet", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "speechbrain.nnet.RNN", room)
    row = Row("sligru", 1, 4, 2, 5)
    (contender,) = layers.other_layers("speechbrain", row, "float32")
    call = contender.prepare(Inputs(rnnc.cells.sligru, row, "float32", "cpu"))
    assert call.run().shape == call.seed.shape == (2, 5, 4)
    assert [g.shape for g in call.step()] == [t.shape for t in call.inputs]
    assert contender.note
    assert not [*layers.other_layers("speechbrain", Row("gru", 1, 4), "float32")]


def test_the_table_compares_on_the_same_terms():
    def made(name, both, terms="wx ready", note=""):
        times = {"forward": both / 2, "forward_backward": both, "inference": both / 4}
        more = {"terms": terms, "note": note, "peak_mib": None, "failures": {}}
        return {"name": name, "dtype": "float32", **times, **more}

    case = {
        "name": "some",
        "contenders": [
            made("rnnc", 2.0),
            made("rnnc, 1% resets", 3.0, note="rows"),
            made("rnnc.RNN", 4.0, "with input GEMM"),
            made("torch loop", 60.0),
            made("Haste", 20.0, "with input GEMM"),
        ],
        "left_out": {},
        "published": {"by": "TorchRL", "microseconds": [55.2, 122.3], "where": "GB200"},
    }
    table = cases_table([case])
    assert list(table.columns[-2].cells) == ["", "1.5 / 1.5", "", "30 / 30", "5 / 5"]
    assert list(table.columns[-1].cells) == ["TorchRL 55.2 / 122 (GB200)", "", "", "", ""]
    del case["published"]
    assert [column.header for column in cases_table([case]).columns][-1] == "rnnc is faster"


def test_the_command_writes_its_record(tmp_path):
    path = tmp_path / "found.json"
    words = ["bench", "--stages", "--device", "cpu", "--repeat", "2", "--cases", "gru"]
    outcome = CliRunner().invoke(app, [*words, "--json", str(path)])
    assert outcome.exit_code == 0, outcome.output
    assert "torch loop" in outcome.output
    found = json.loads(path.read_text())
    assert "checks" not in found
    names = [each["name"] for each in found["cases"][0]["contenders"]]
    assert names == ["rnnc", "rnnc, 1% resets", "torch loop"]
    assert len(found["cases"][0]["left_out"]) == 1
