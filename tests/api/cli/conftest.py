"""Fixtures that run the `rnnc` command in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rnnc.cli.app import app
from typer.testing import CliRunner, Result

NOISY = """\
import rnnc
from rnnc import Gate, Input, State, bernoulli, normal, tanh


@rnnc.cell
def noisy(
    g: Gate,
    dt: Input,
    h: State,
    *,
    keep: Input = bernoulli(0.25),
    xi: Input = normal(per="sequence"),
):
    return keep * dt * h + (1 - keep) * tanh(g + xi)
"""


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def error_of(*words: str) -> str:
    result = invoke(*words)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    return result.stderr


def output_of(*words: str) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def noisy_file(folder: Path) -> None:
    """The file noisy.py in the folder, of a cell with inputs that are passed and drawn."""
    (folder / "noisy.py").write_text(NOISY, encoding="utf-8")


@pytest.fixture
def run() -> Callable[..., Result]:
    """The command's result."""
    return invoke


@pytest.fixture
def refused() -> Callable[..., str]:
    """What the command says on the error stream, when it says nothing else."""
    return error_of


@pytest.fixture
def shown() -> Callable[..., str]:
    """What the command says when all is well."""
    return output_of
