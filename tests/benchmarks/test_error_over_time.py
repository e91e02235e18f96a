"""`error_over_time.py`: errors per span of steps, of the kernels and of the eager loop."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
import typer
from typer.testing import CliRunner


@pytest.fixture
def script_under_test(script):
    pytest.importorskip("matplotlib")
    return script("error_over_time")


def test_errors_of_both_are_written_and_drawn(script_under_test, tmp_path, monkeypatch):
    monkeypatch.setattr(script_under_test, "SIZES", ((2, 4), (1, 8)))
    app = typer.Typer()
    app.command()(script_under_test.main)
    words = "--device cpu --steps 20 --batch 3 --dtypes bfloat16,float32 --output".split()
    outcome = CliRunner().invoke(app, [*words, str(tmp_path)])
    assert outcome.exit_code == 0, outcome.output
    files = sorted(tmp_path.iterdir())
    assert [p.suffix for p in files] == [".json", ".png"]
    cases = json.loads(files[0].read_text())["cases"]
    assert len(cases) == 8
    assert {case["cell"] for case in cases} == {"lstm", "gru"}
    for case in cases:
        ours, eager = case["curves"]
        assert (ours["name"], eager["name"]) == ("rnnc", "eager torch loop")
        bound = 0.02 if case["dtype"] == "bfloat16" else 1e-5
        assert 0 < ours["over_all"] < bound
        assert ours["steps"] == eager["steps"]
        assert ours["steps"][-1] == 20
    assert "over all steps" in outcome.output
    assert str(tmp_path) not in files[0].read_text()


def test_a_limit_leaves_cases(script_under_test, tmp_path):
    app = typer.Typer()
    app.command()(script_under_test.main)
    words = ["--device", "cpu", "--limit", "0", "--output", str(tmp_path)]
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0
    assert "time limit reached before lstm, 12 x 64, bfloat16" in outcome.output
    assert not list(tmp_path.iterdir())


def test_spans_cover_every_step_once(script_under_test):
    for steps in (8, 100, 4096):
        spans = list(script_under_test._spans(steps))
        assert spans[0][0] == 0
        assert spans[-1][1] == steps
        assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))


def test_the_error_is_relative(script_under_test):
    truth = torch.full((2, 8, 1, 3), 4.0, dtype=torch.float64)
    found = script_under_test._errors(truth * 1.5, truth)
    assert found["over_all"] == pytest.approx(0.5)
    assert found["errors"] == pytest.approx([0.5] * len(found["steps"]))
