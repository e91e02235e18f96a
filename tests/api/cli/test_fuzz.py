"""`rnnc fuzz`, and commands that need a GPU on a machine without one."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rnnc.cli import fuzz
from rnnc.verify.draw.case import Settings, draw_case
from rnnc.verify.fuzz.run import Outcome
from rnnc.verify.fuzz.worker import Done, Kind, Worker
from rnnc.verify.modules.draw import draw_module
from rnnc.verify.modules.run import MODULES
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("folder")


def test_a_run_says_what_it_did(run: Callable[..., Result]) -> None:
    result = run("fuzz", "--seed", "1", "--count", "2", "--compiled", "0")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "seed 1"
    assert lines[1].startswith("2 cells in ")
    assert "2 right, 0 wrong, 0 discarded (0.0%)" in lines[1]


def test_modules_are_drawn_on_demand(run: Callable[..., Result]) -> None:
    result = run("fuzz", "--modules", "--seed", "35", "--cases", "2,3")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "seed 35"
    assert lines[1].startswith("2 modules in ")
    assert "2 right, 0 wrong, 0 discarded (0.0%)" in lines[1]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT, which a process that a shell runs behind ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_says_what_has_ended(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def run_cases(kind: Kind, seed: int, *_: object) -> Iterator[Done]:
        for case, outcome in enumerate((Outcome("right"), Outcome("wrong", ("off",), "a kind"))):
            yield Done(case, draw_case(seed, case, Settings()), outcome, 0.1, ())
        os.kill(os.getpid(), number)
        raise AssertionError("it goes on")

    monkeypatch.setattr(fuzz, "run_cases", run_cases)
    result = run("fuzz", "--seed", "1", "--count", "5", "--compiled", "0")
    assert result.exit_code not in (0, 2)
    lines = result.stdout.splitlines()
    assert lines[1] == "interrupted; what has ended:"
    assert lines[2].startswith("failed: cell 1, ")
    assert "  again: rnnc fuzz --seed 1 --compiled 0.0 --cases 1" in lines
    assert any(line.startswith("2 cells in 0 s: 1 right, 1 wrong") for line in lines)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that lets modules run as one of `plant_in_modules` does."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "verify"))
    plant = importlib.import_module("plant_in_modules")

    def fail(name: str, seconds: float = 120.0) -> None:
        kind = replace(MODULES, run=getattr(plant, name), seconds=seconds)
        monkeypatch.setattr(fuzz, "_MODULES", replace(fuzz._MODULES, kind=kind))

    return fail


def test_a_failure_is_shown_in_its_smallest_form(
    run: Callable[..., Result], failing: Callable[..., None]
) -> None:
    drawn = ((n, draw_module(35, n, Settings())) for n in range(100))
    number = next(n for n, case in drawn if case.cell == "lstm" and case.calls[0].has_backward)
    failing("run_with_a_wrong_gradient")
    result = run("fuzz", "--modules", "--seed", "35", "--cases", str(number))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1].startswith(f"failed: module {number}, lstm, ")
    assert ": a wrong value: d weight_hh_l" in lines[1]
    assert lines[2] == f"  again: rnnc fuzz --modules --seed 35 --cases {number}"
    assert f"# module {number}, in the smallest form that fails:" in lines
    calls = [line.strip() for line in lines if "Call(kind=" in line]
    assert calls == ["Call(kind='forward', steps=2),"]


def test_a_failure_after_other_cases_says_so(
    run: Callable[..., Result], failing: Callable[..., None]
) -> None:
    failing("run_after_others")
    result = run("fuzz", "--modules", "--seed", "35", "--cases", "4,3")
    assert "\n# module 3, which does not fail alone; its process ran others before it:\n" in (
        result.stdout
    )
    assert "\n# rnnc fuzz --modules --seed 35 --cases 4,3\n" in result.stdout


def test_a_hang_is_not_shrunk(run: Callable[..., Result], failing: Callable[..., None]) -> None:
    failing("run_that_hangs", seconds=4.0)
    result = run("fuzz", "--modules", "--seed", "35", "--cases", "4")
    assert result.exit_code == 1
    assert ": a hang: no result after " in result.stdout
    assert "  again: rnnc fuzz --modules --seed 35 --cases 4\n" in result.stdout
    assert "# module 4, which did not answer:\n" in result.stdout
    assert "print(run_module(case))" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--modules --compiled 0.5", "--modules draws no such calls"),
        ("--cases 1,2 --count 3", "leave --count out"),
        ("--cases 1,x", "numbers such as 4,9,31, not '1,x'"),
    ],
)
def test_options_that_contradict_each_other(
    words: str, message: str, run: Callable[..., Result]
) -> None:
    result = run("fuzz", *words.split())
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
@pytest.mark.parametrize("words", ["fuzz", "fuzz --modules", "check lstm gru"])
def test_a_gpu_is_asked_for_by_name(words: str, refused: Callable[..., str]) -> None:
    message = refused(*words.split(), "--device", "cuda")
    assert message.startswith(f"rnnc {words} --device cuda\n")
    assert f"  write:  rnnc {words} --device cpu" in message


def test_a_crash_is_a_failure_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that no process survives: the parent says so, and starts another."""
    worker = Worker()
    worker.start(0, draw_case(1, 0, Settings()))
    worker.process.kill()
    worker.process.join()
    outcome = worker.finish().outcome
    assert (outcome.verdict, outcome.kind) == ("wrong", "a crash")
    another = worker.or_another(outcome)
    assert another is not worker
    another.stop()
    assert worker.or_another(Outcome("right")) is worker
