"""Help, completion, the version and `rnnc cache` answer within half a second."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from rnnc.codegen.cuda.kinds import variants

HEAVY = {"torch", "sympy", "pydantic", "jinja2", "numpy"}
# Recent versions of typer import pydantic themselves to convert the words of a subcommand.
OF_TYPER = {"pydantic"}
# Runs the command, then prints the heavy modules that it imported on the last line.
CODE = f"""
import sys
sys.argv[0] = "rnnc"
from rnnc.cli.app import app
try:
    app(prog_name="rnnc")
finally:
    print(sorted({HEAVY} & sys.modules.keys()))
"""


def run(*words: str, **variables: str) -> tuple[str, float]:
    """What a command prints, and the seconds of a core that it takes."""
    began = seconds_of_children()
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    heavy = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert heavy <= (set() if words[:1] in (("--help",), ("--version",)) else OF_TYPER)
    return done.stdout, seconds_of_children() - began


def seconds_of_children() -> float:
    """Of processes that have ended; on a busy machine they wait, but compute no more."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["bench", "--help"], ["cache", "where"]],
    ids=" ".join,
)
def test_a_command_answers_without_heavy_imports(words: list[str]) -> None:
    # Half a second on an idle machine; cores that are shared compute at a half of that.
    assert any(run(*words)[1] < 1.5 for _ in range(3))


def complete(line: str) -> set[str]:
    words = line.split(" ")
    variables = {
        "_RNNC_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    return set(run(**variables)[0].splitlines()[:-1])


def test_a_shell_completes_commands_options_cells_and_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lstm_of_mine.py").touch()
    assert complete("rnnc c") == {"check", "cache"}
    assert complete("rnnc plan --head") == {"--heads", "--head-dim"}
    assert complete("rnnc show lst") == {"lstm", "lstm_1997", "lstm_of_mine.py"}
    assert complete("rnnc plan lstm --gpu H") == {"H100", "H200"}


def test_a_shell_completes_every_kind_of_plan() -> None:
    assert complete("rnnc plan lstm --variant ") == set(variants())
    assert complete("rnnc fuzz --variant al") == {"alternating"}
