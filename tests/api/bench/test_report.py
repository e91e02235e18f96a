"""The record of `rnnc bench`: ratios to plans and peers, the JSON."""

from __future__ import annotations

import json

import pytest
import rnnc
import torch
from rnnc.bench.cases import RowCase
from rnnc.bench.contenders.contender import Contender
from rnnc.bench.measure import Settings, measure
from rnnc.bench.report import Record, file_stem, machine
from rnnc.bench.results import Comparison, Result, median_of
from rnnc.bench.rows import Pair, Row
from rnnc.bench.tables import cases_table
from rnnc.bench.timing import Figure
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape

ROW = Row("lstm", 2, 4, 2, 6)
CASE = RowCase(ROW, ("float32",), ("scan", "module", "nn", "loop"))
SETTINGS = Settings("cpu", repeat=3)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return measure(CASE, rnnc.cells.lstm, SETTINGS)


def figure(milliseconds: float) -> Figure:
    return Figure(milliseconds, milliseconds, milliseconds, 0.1, 30)


def result(name: str, forward: float, both: float, *, ours: bool, note: str = "") -> Result:
    contender = Contender(name, "bfloat16", ours, "wx ready", lambda _: NotImplemented, note=note)
    return Result(contender, {"forward": figure(forward), "forward_backward": figure(both)})


def test_a_plan_is_named_beside_what_it_took():
    measured = result("rnnc auto", 2.0, 5.0, ours=True)
    measured.plan = plan_for(rnnc.cells.lstm, Shape(1, 32), limits_of("H200"))
    record = measured.record(1000)
    assert record["runs_as"] == "block"
    assert record["nanoseconds_a_step"] == {"forward": 2000, "backward": 3000}
    wanted = dict(zip(("forward", "backward"), measured.plan.nanoseconds, strict=True))
    assert record["planned_nanoseconds_a_step"] == wanted
    assert result("nn.LSTM", 1, 2, ours=False).record(9)["planned_nanoseconds_a_step"] is None


def test_a_mixed_plan_s_estimates_are_those_of_each_direction_s_plan():
    measured = result("rnnc auto", 2.0, 5.0, ours=True)
    asked = (rnnc.cells.lstm, Shape(12, 64), limits_of("H200"))
    block, cluster = (plan_for(*asked, variant) for variant in ("block", "cluster"))
    measured.plan = Plan(block.forward, cluster.backward)
    record = measured.record(1000)
    assert record["runs_as"] == "block+cluster"
    assert record["planned_nanoseconds_a_step"] == {
        "forward": block.nanoseconds[0],
        "backward": cluster.nanoseconds[1],
    }


def test_rnnc_is_compared_with_those_that_do_the_same():
    compared = Comparison(RowCase(Row("lstm", 2, 64, target=Pair(1, 2)), ("bfloat16",), ()))
    compared.results += [
        result("rnnc", 1.0, 3.0, ours=True),
        result("FlashRNN", 4.0, 9.0, ours=False),
        result("another", 0.5, 0.5, ours=False, note="another function"),
    ]
    table = cases_table([compared.record()], ["rnnc is faster", "times the target"])
    assert list(table.columns[-2].cells) == ["", "4 / 3", "0.5 / 0.167"]
    assert list(table.columns[-1].cells) == ["1 / 1.5", "", ""]
    assert list(table.columns[1].cells)[2] == "another, bfloat16 *"


def test_records_of_before_have_medians_alone():
    assert median_of({"forward": 2.0}, "forward") == 2.0
    assert median_of({"forward": {"median": 2.0}}, "forward") == 2.0
    assert median_of({"forward": None}, "forward") is None
    assert median_of(None, "forward") is None


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
    assert (module["terms"], loop["terms"]) == ("with input GEMM", "wx ready")
    assert peer["note"] == "one head of 4 only"
    assert ours["nanoseconds_a_step"]["forward"] == pytest.approx(
        1e6 * ours["forward"]["median"] / 6
    )


def test_the_machine_is_named_without_its_paths():
    assert machine("cpu")["torch"] == torch.__version__
    assert "/" not in machine("cpu")["device"]
    assert file_stem("cpu", "AMD EPYC", "2026-11-20") == "bench-cpu-2026-11-20"
