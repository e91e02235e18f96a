"""The record of `rnnc bench`: ratios to plans and peers, the JSON."""

from __future__ import annotations

import json

import pytest
import rnnc
import torch
from rnnc.bench.contenders.contender import Contender
from rnnc.bench.measure import Settings, measure_row
from rnnc.bench.report import Record, file_stem, machine
from rnnc.bench.results import Comparison, Result
from rnnc.bench.rows import Pair, Row
from rnnc.bench.timing import Figure
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape

ROW = Row("lstm", 2, 4, 2, 6)


SETTINGS = Settings("cpu", ("float32",), kinds=("scan", "module", "nn", "loop"), repeat=3)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return measure_row(ROW, rnnc.cells.lstm, SETTINGS)


def figure(milliseconds: float) -> Figure:
    return Figure(milliseconds, milliseconds, milliseconds, 0.1, 30)


def result(name: str, forward: float, both: float, *, ours: bool, note: str = "") -> Result:
    contender = Contender(name, "bfloat16", ours, "wx ready", lambda _: NotImplemented, note=note)
    return Result(contender, {"forward": figure(forward), "forward_backward": figure(both)})


def test_a_plan_is_named_beside_what_it_took():
    measured = result("rnnc auto", 2.0, 5.0, ours=True)
    measured.plan = plan_for(rnnc.cells.lstm, Shape(1, 32), limits_of("H200"))
    assert measured.runs_as == "block"
    forward, backward = measured.plan.nanoseconds
    over = measured.over_plan(1000)
    assert over == {"forward": 2000 / forward, "backward": 3000 / backward}
    assert result("nn.LSTM", 1, 2, ours=False).over_plan(1000) is None


def test_a_mixed_plan_s_estimates_are_those_of_each_direction_s_plan():
    measured = result("rnnc auto", 2.0, 5.0, ours=True)
    asked = (rnnc.cells.lstm, Shape(12, 64), limits_of("H200"))
    block, cluster = (plan_for(*asked, variant) for variant in ("block", "cluster"))
    measured.plan = Plan(block.forward, cluster.backward)
    assert measured.runs_as == "block+cluster"
    over = measured.over_plan(1000)
    assert over == {
        "forward": 2000 / block.nanoseconds[0],
        "backward": 3000 / cluster.nanoseconds[1],
    }


def test_a_peer_does_the_same_work():
    compared = Comparison(Row("lstm", 2, 64, target=Pair(1, 2)))
    compared.results += [
        result("rnnc", 1.0, 3.0, ours=True),
        result("FlashRNN", 4.0, 9.0, ours=False),
        result("slow", 5.0, 8.0, ours=False),
        result("small", 0.5, 0.5, ours=False, note="one head of 64 only"),
    ]
    contender = compared.results[0].contender
    assert compared.best_peer(contender, "forward") == 4
    assert compared.best_peer(contender, "forward_backward") == 8
    assert compared.best_peer(contender, "inference") is None
    assert compared.reached(compared.results[0]) == {"forward": True, "forward_backward": False}
    assert compared.reached(compared.results[1]) == {}


def test_the_record_holds_what_was_measured(found, tmp_path):
    path = tmp_path / "found.json"
    file = Record("cpu", "rnnc bench --cell lstm", method=SETTINGS.method)
    file.into(None, path)
    file.write(rows=[found.record()])
    content = json.loads(path.read_text())
    assert list(content) == ["schema", "date", "command", "machine", "method", "rows"]
    (row,) = content["rows"]
    assert (row["cell"], row["heads"], row["head_dim"], row["steps"]) == ("lstm", 2, 4, 6)
    ours, module, peer, loop = row["contenders"]
    assert ours["forward"]["median"] == found.results[0].figures["forward"].median
    ratio = ours["forward"]["median"] / loop["forward"]["median"]
    assert ours["times_best_peer"]["forward"] == pytest.approx(ratio)
    assert module["times_best_peer"] == {}  # against one head of the row's two
    assert peer["note"] == "one head of 4 only"
    assert ours["nanoseconds_a_step"]["forward"] == pytest.approx(
        1e6 * ours["forward"]["median"] / 6
    )


def test_the_machine_is_named_without_its_paths():
    assert machine("cpu")["torch"] == torch.__version__
    assert "/" not in machine("cpu")["device"]
    assert file_stem("cpu", "AMD EPYC", "2026-11-20") == "bench-cpu-2026-11-20"
