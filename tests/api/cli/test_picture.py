"""`--plot`: the pictures of tables."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import rnnc
from rnnc.bench.cases import RowCase
from rnnc.bench.contenders.contender import Contender
from rnnc.bench.modules.cases import ragged_cases
from rnnc.bench.modules.plans import PlanResult, Tiling
from rnnc.bench.modules.results import ModuleResult, Side
from rnnc.bench.results import Comparison
from rnnc.bench.results import Result as RowResult
from rnnc.bench.rows import Pair, Row
from rnnc.bench.timing import Figure
from rnnc.cli.bench.pictures import cases_marks, modules_marks, plans_marks
from rnnc.cli.picture import Mark, write_picture
from rnnc.codegen.cuda.limits import limits_of

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"

pytestmark = pytest.mark.usefixtures("folder")


def texts(file):
    """The texts of an SVG, which matplotlib writes as comments above their outlines."""
    return re.findall(r"<!-- (.*?) -->", Path(file).read_text(encoding="utf-8"))


def test_a_plan_has_a_mark_for_each_kind_and_direction(shown):
    said = shown("plan", "lstm", "--heads", "12", "--plot", "plan.svg")
    assert said.endswith("wrote plan.svg\n")
    found = texts("plan.svg")
    plan = rnnc.plan_for(rnnc.cells.lstm, rnnc.Shape(12, 64), limits_of("H200"))
    kinds = ["block", "cluster", "grid", "alternating"]
    assert [text for text in found if text in kinds] == kinds
    assert f"lstm, 12 x 64, batch 16, 1024 steps, bfloat16, on H200; taken: {plan.variant}" in found
    assert {"forward", "backward", "forward, taken", "backward, taken"} <= set(found)


@pytest.mark.parametrize(
    "words",
    [["plan", "elman", "--head-dim", "64"], ["check", "elman", "--seed", "1"]],
    ids=" ".join,
)
def test_standard_output_is_the_same_but_for_the_last_line(words, shown):
    lines = shown(*words, "--plot", "table.png").splitlines()
    assert lines[-1] == "wrote table.png"
    assert lines[:-1] == shown(*words).splitlines()
    assert Path("table.png").read_bytes().startswith(b"\x89PNG")


def test_rows_of_a_benchmark_have_a_picture_without_a_folder(shown):
    sizes = "--heads 1 --head-dim 4 --batch 1 --steps 2 --repeat 1 --device cpu".split()
    said = shown("bench", *sizes, "--contenders", "scan", "--plot", "rows.svg")
    assert "wrote rows.svg" in said
    assert any("rnnc" in text for text in texts("rows.svg"))


def test_rows_have_marks_of_both_phases_of_the_model_and_of_targets():
    row = Row("lstm", 1, 32, target=Pair(1.5, 4.0), steps=1000)
    auto = Contender("rnnc auto", "bfloat16", True, "wx ready", lambda _: NotImplemented, "auto")
    times = {"forward": 2.0, "forward_backward": 5.0}
    result = RowResult(auto, {p: Figure(each, each, each, 0.1, 30) for p, each in times.items()})
    result.plan = rnnc.plan_for(rnnc.cells.lstm, rnnc.Shape(1, 32), limits_of("H200"))
    nn = Contender("nn.LSTM", "float16", False, "with input GEMM", auto.prepare, note="one head")
    peer = RowResult(nn, {"forward": result.figures["forward"]})
    case = RowCase(row, ("bfloat16",), ())
    marks = list(cases_marks([Comparison(case, [result, peer]).record()]))
    forward, backward = (1e-3 * each for each in result.plan.nanoseconds)
    first = {
        mark.series: (mark.value, mark.ours) for mark in marks if mark.row == f"{case}: forward"
    }
    assert first == {
        "rnnc auto, bfloat16": (2.0, True),
        "auto by the model": (pytest.approx(forward), False),
        "nn.LSTM, float16 + *": (2.0, False),
        "target": (1.5, False),
    }
    both = {mark.series: mark.value for mark in marks if mark.row.endswith("forward + backward")}
    assert both["auto by the model"] == pytest.approx(forward + backward)
    assert (both["nn.LSTM, float16 + *"], both["target"]) == (None, 4.0)


def test_another_ending_is_refused_before_anything_runs(refused):
    message = refused("check", "elman", "--plot", "table.jpg")
    assert "found:  a file that ends in .jpg" in message
    assert "write:  --plot table.svg" in message
    assert "write:  --plot table.svg" in refused("plan", "elman", "--plot", "")


def test_a_missing_matplotlib_is_named_before_anything_runs(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused("bench", "--users", "--device", "cpu", "--plot", "users.svg")
    assert 'write:  pip install "rnnc[plots]"' in message


def test_figures_that_are_missing_have_no_mark(capsys):
    marks = [Mark("a", "rnnc", 2.0, ours=True), Mark("b", "rnnc", None), Mark("c", "x", 0.0)]
    write_picture(Path("some.svg"), "a title", "ms", marks)
    found = texts("some.svg")
    assert "a" in found
    assert "b" not in found
    assert "c" not in found
    write_picture(Path("none.svg"), "a title", "ms", marks[1:])
    assert not Path("none.svg").exists()
    assert capsys.readouterr().out == "wrote some.svg\n"


def test_users_have_marks_of_both_sides():
    record = json.loads((RESULTS / "users-cuda-h200-2026-11-23.json").read_text())["cases"][0]
    marks = list(modules_marks([ModuleResult.of_record(record)]))
    assert marks[0] == Mark(record["name"], "rnnc", record["ours"]["wall"], ours=True)
    theirs = {mark.series: mark.value for mark in marks[1:]}
    assert theirs == {dtype: side["wall"] for dtype, side in record["peers"].items()}


def test_plans_have_marks_of_the_choice_of_the_fastest_and_of_the_model():
    tilings = (
        Tiling("block", "4 rows", 1.5, 2.0, "", {}),
        Tiling("block", "8 rows", 1.75, 1.25, "", {}),
        Tiling("grid", "8 rows", 3.0, None, "no room", {}),
    )
    found = PlanResult("a case", "forward", 256, 0, tilings)
    assert [mark.value for mark in plans_marks([found])] == [2.0, 1.25, 1.5]


def test_ragged_rows_and_peers_have_marks_of_each_contender():
    case = ragged_cases("cpu")[0]
    sides = {"rnnc": Side(1.0), "torch": Side(2.0)}
    assert list(modules_marks([ModuleResult(case, sides)])) == [
        Mark(str(case), "rnnc", 1.0, ours=True),
        Mark(str(case), "torch", 2.0),
    ]
    own = {"dtype": "float32", "terms": "wx ready", "note": ""}
    contenders = [
        own | {"name": "rnnc auto", "forward_backward": 3.0},
        own | {"name": "Haste", "forward_backward": None},
    ]
    record = {"name": "a case", "contenders": contenders, "floor": [0.5, 1.5]}
    assert list(cases_marks([record], ["forward_backward"])) == [
        Mark("a case", "rnnc auto, float32", 3.0, ours=True),
        Mark("a case", "Haste, float32", None),
        Mark("a case", "floor", 1.5),
    ]
