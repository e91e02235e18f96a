"""`rnnc bench`: its table, its files, and its errors for wrong options."""

import json
import sys
from pathlib import Path

import pytest
from rnnc.bench.anchors import read_anchors
from rnnc.bench.cases import RowCase
from rnnc.bench.contenders import layers
from rnnc.bench.contenders.contender import Contender
from rnnc.bench.results import Comparison, Result
from rnnc.bench.rows import ROWS
from rnnc.bench.tables import cases_table, notes, rows_table
from rnnc.bench.timing import Figure
from rnnc.cli.app import app
from rnnc.cli.bench.rows import _COLUMNS
from rnnc.cli.console import print_table
from rnnc.codegen.cuda.alternating.plan import AlternatingPlan
from rnnc.codegen.cuda.cost.estimate import StepEstimate
from rnnc.codegen.plan import Plan
from typer.testing import CliRunner
from typer.testing import Result as Outcome

TINY = "--device cpu --heads 1 --head-dim 4 --batch 2 --steps 40 --repeat 2".split()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Outcome:
    return CliRunner().invoke(app, ["bench", *words])


def test_rows_are_measured_and_written(folder):
    outcome = run(*TINY, "--rows", "2,14", "--output", "here")
    assert outcome.exit_code == 0, outcome.output
    assert "row 2: lstm, 1 x 4, batch 2, 40 steps, float32 (tf32)" in outcome.stdout
    assert "nn.RNN, float32 +" in outcome.stdout
    written = sorted((folder / "here").iterdir())
    assert [p.suffix for p in written] == [".json", ".svg"]
    content = json.loads(written[0].read_text())
    assert [row["number"] for row in content["rows"]] == [2, 14]
    assert content["command"] == "rnnc bench --rows 2,14 " + (
        "--heads 1 --head-dim 4 --batch 2 --steps 40 --repeat 2 --device cpu"
    )
    assert [c["name"] for c in content["rows"][0]["contenders"]] == ["rnnc", "rnnc.RNN", "nn.LSTM"]
    assert str(folder) not in written[0].read_text()


def test_a_cell_of_the_caller_s_own_and_a_loop_at_few_steps():
    Path("mine.py").write_text(
        "import rnnc\nfrom rnnc import Gate, State, tanh\n\n\n@rnnc.cell\n"
        "def mine(g: Gate, h: State):\n    return tanh(g)\n",
        encoding="utf-8",
    )
    outcome = run(*TINY, "--cell", "mine.py:mine", "--steps", "5", "--contenders", "scan")
    assert outcome.exit_code == 0, outcome.output
    assert "mine, 1 x 4, batch 2, 5 steps, float32 (tf32)" in outcome.stdout
    assert "eager loop, float32" in outcome.stdout


def test_a_contender_that_fails_is_shown(monkeypatch):
    def broken(*_: int) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setitem(layers.MODULES, "lstm", ("nn.LSTM", broken))
    outcome = run(*TINY, "--contenders", "scan,nn")
    assert outcome.exit_code == 0
    assert "  prepare: RuntimeError: out of luck" in outcome.stdout


def test_a_limit_says_what_it_left_out():
    outcome = run(*TINY, "--limit", "0")
    assert outcome.exit_code == 0
    assert "nn.LSTM, float32: the time limit was reached" in outcome.stdout


def test_a_missing_matplotlib_is_no_failure(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = run(*TINY, "--contenders", "nn", "--output", "here")
    assert outcome.exit_code == 0
    assert 'pip install "rnnc[plots]"' in outcome.stderr
    assert [p.suffix for p in (folder / "here").iterdir()] == [".json"]


@pytest.mark.parametrize(
    ("words", "found", "write"),
    [
        ("--rows 17", "row '17'", "--rows 1,2,3"),
        ("--cell lstmm", "no cell of the name 'lstmm'", "lstm"),
        ("--rows 1 --cell gru", "--rows 1 and --cell gru", "--rows 1"),
        ("--dtype int8", "dtype 'int8'", "--dtype bfloat16"),
        ("--contenders cudnn", "contender 'cudnn'", "--contenders scan,nn"),
        ("--device tpu", "device 'tpu'", "--device cuda"),
        ("--batch 0", "batch 0", "--batch 1"),
    ],
)
def test_bad_words(words, found, write):
    outcome = run("--device", "cpu", *words.split())
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    assert f"found:  {found}" in outcome.stderr
    assert f"write:  {write}" in outcome.stderr


PLAN = Plan(
    *(
        AlternatingPlan(
            direction=direction,
            arch="sm_90",
            dtype="bfloat16",
            estimate=StepEstimate(pointwise=nanoseconds),
        )
        for direction, nanoseconds in (("forward", 340), ("backward", 900))
    )
)


def test_the_table_of_a_gpu(capsys):
    def result(name: str, forward: float, both: float, ours: bool) -> Result:
        figures = {"forward": forward, "forward_backward": both, "inference": forward}
        return Result(
            Contender(
                name,
                "bfloat16",
                ours,
                "wx ready",
                lambda _: NotImplemented,
                "auto" if ours else None,
            ),
            {p: Figure(t, t, t, 0.1, 30) for p, t in figures.items()},
            first_seconds=28.7,
            peak_mib=123.4,
            plan=PLAN if ours else None,
        )

    anchors = read_anchors(Path(__file__).parents[3] / "benchmarks/anchors.json")
    found = Comparison(RowCase(anchors.at(ROWS[2]), ("bfloat16",), ()))
    found.results += [
        result("rnnc auto", 0.4, 1.5, True),
        result("FlashRNN cuda_fused", 3.0, 8.0, False),
    ]
    found.first["rnnc auto, bfloat16"] = {"cold": 1.5, "cached": 0.05}
    print_table(cases_table([found.record()], _COLUMNS))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[2] == (
        "row 2: lstm, 12 x 64, batch 16, 1024 steps, bfloat16 rnnc auto, bfloat16 (alternating)"
        " 0.4 1.5 0.4 0.39 / 1.07 0.34 / 0.90 123 29 0.889 / 1.15"
    )
    assert lines[3] == "FlashRNN cuda_fused, bfloat16 3 8 3 2.93 / 4.88 123 29 7.5 / 5.33"
    said = notes(found)
    assert "anchors: target 0.45 / 1.3, FlashRNN 2.94 / 7.86" in said
    assert "first result of rnnc auto, bfloat16: cold 1.50 s, cached 0.05 s" in said
    print_table(rows_table([found.record()]))
    last = " ".join(capsys.readouterr().out.splitlines()[-1].split())
    assert last == (
        "2, lstm, 12 x 64, 16 alternating 0.4 / 1.5 0.45 / 1.3 0.39 / 1.07 0.34 / 0.90 -"
        " 2.94 / 7.86"
    )
