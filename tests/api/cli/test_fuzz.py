"""`rnnc fuzz`, and commands that need a GPU on a machine without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from rnnc.verify.fuzz import workers
from rnnc.verify.fuzz.run import Outcome
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("folder")


def test_a_run_says_what_it_did(run: Callable[..., Result]) -> None:
    result = run("fuzz", "--seed", "1", "--count", "2", "--compiled", "0")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "seed 1"
    assert lines[1].startswith("2 cells in ")
    assert "2 right, 0 wrong, 0 discarded (0.0%)" in lines[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
@pytest.mark.parametrize("words", ["fuzz", "check lstm gru"])
def test_a_gpu_is_asked_for_by_name(words: str, refused: Callable[..., str]) -> None:
    message = refused(*words.split(), "--device", "cuda")
    assert message.startswith(f"rnnc {words} --device cuda\n")
    assert f"  write:  rnnc {words} --device cpu" in message


def test_a_crash_is_a_failure_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that no process survives: the parent says so, and starts another."""
    worker = workers.Worker()
    worker.start(0, workers.draw_case(1, 0, workers.Settings()))
    worker.process.kill()
    worker.process.join()
    outcome = worker.finish().outcome
    assert (outcome.verdict, outcome.kind) == ("wrong", "a crash")
    another = worker.or_another(outcome)
    assert another is not worker
    another.stop()
    assert worker.or_another(Outcome("right")) is worker
