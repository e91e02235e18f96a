"""`rnnc tune` without a GPU: its error, and its table for made-up trials."""

import pytest
import rnnc
import torch
from rnnc.cli import tune as cli_tune
from rnnc.cli.app import app
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plans_for
from rnnc.codegen.shape import PlanError, Shape
from rnnc.runtime.cuda import tune as trials
from typer.testing import CliRunner, Result

H200 = limits_of("H200")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["tune", *words])


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """An H200 on which the second plan is the fastest."""

    def measure(asked, plans, device):
        return [(1.0, 2.0), (0.5, 0.75), *[(3.0, 3.0)] * len(plans)][: len(plans)]

    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(cli_tune, "device_limits", lambda index: H200)
    monkeypatch.setattr(trials, "measure_plans", measure)


@pytest.mark.usefixtures("gpu")
def test_the_winner_has_a_star_and_all_that_was_tried_a_line() -> None:
    result = run("lstm", "--heads", "12", "--head-dim", "64")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "lstm, 12 x 64, batch 16, 1024 steps, bfloat16"
    assert lines[1] == str(H200)
    assert lines[3].split() == "plan estimate forward backward both".split()
    first, second = (" ".join(line.split()) for line in lines[4:6])
    cheapest = plans_for(rnnc.cells.lstm, Shape(12, 64), H200)[0]
    assert first.startswith("cluster: ")
    assert first.endswith(f" {sum(cheapest.nanoseconds)} ns 1.00 us 2.00 us 3.00 us per step")
    assert second.startswith("cluster: ")
    assert second.endswith(" * 0.50 us * 0.75 us 1.25 us per step")
    assert sum(line.count("* ") for line in lines[4:8]) == 2
    assert lines[9].startswith("* cluster (sm_90, bfloat16, head dim 64)")


@pytest.mark.usefixtures("gpu")
def test_each_direction_s_winner_has_a_star(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(asked, plans, device):
        assert [plan.variant for plan in plans[:3]] == ["cluster", "cluster", "block"]
        return [(1.0, 2.0), (3.0, 3.0), (1.5, 1.25), *[(3.0, 3.0)] * len(plans)][: len(plans)]

    monkeypatch.setattr(trials, "measure_plans", measure)
    lines = run("lstm", "--heads", "12", "--head-dim", "64").stdout.splitlines()
    first, _, third = (" ".join(line.split()) for line in lines[4:7])
    assert first.endswith(" ns * 1.00 us 2.00 us 3.00 us per step")
    assert third.endswith(" ns 1.50 us * 1.25 us 2.75 us per step")
    assert sum(line.count("* ") for line in lines[4:8]) == 2
    assert lines[9].startswith("* cluster+block (sm_90, bfloat16, head dim 64)")


@pytest.mark.usefixtures("gpu")
def test_a_plan_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PlanError("plan", "no room", "room", "less")
    monkeypatch.setattr(trials, "measure_plans", lambda _, plans, __: [refused] * len(plans))
    lines = run("lstm", "--candidates", "1", "--head-dim", "32").stdout.splitlines()
    assert lines[4].startswith("block: ")
    assert lines[4].split()[-4:] == ["-", "-", "no", "room"]


@pytest.mark.usefixtures("gpu")
def test_wrong_words_are_answered() -> None:
    assert "found:  candidates=0\n  wanted: at least 1" in run("lstm", "--candidates", "0").stderr
    assert "no cell of the name 'lstn'" in run("lstn").stderr


def test_without_a_gpu_it_says_what_estimates_do() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = run("lstm")
    assert result.exit_code == 1
    assert result.stderr.startswith("CUDA device\n  found:  none that torch can use\n")
    assert "write:  rnnc plan" in result.stderr
