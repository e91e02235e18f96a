"""The `rnnc` command as a whole: its version, its help, unknown words and `rnnc limits`."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata

import pytest
import rnnc
from rnnc.codegen.cuda.largest import largest_head_dims
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("folder")


def test_version_is_the_package_s(run: Callable[..., Result]) -> None:
    assert run("--version").stdout == f"rnnc {metadata.version('rnnc')}\n"


def test_no_word_shows_the_commands(run: Callable[..., Result]) -> None:
    output = run().output
    assert all(word in output for word in ("list", "show", "check"))


def test_an_unknown_name_is_answered_with_the_nearest(refused: Callable[..., str]) -> None:
    assert refused("show", "LSTN") == (
        "rnnc.cells\n"
        "  found:  no cell of the name 'LSTN'\n"
        "  wanted: a name that `rnnc list` shows, or a cell in a file\n"
        "  write:  lstm or slstm\n"
    )
    assert "  write:  my_cell.py:my_cell\n" in refused("check", "nothing_like_it")


def test_unknown_options_are_refused(run: Callable[..., Result]) -> None:
    assert run("show", "lstm", "--what", "hip").exit_code == 2
    result = run("show", "lstm", "--dtype", "float64")
    assert result.exit_code == 2
    assert "--what equations has no scalar type" in result.stderr


def test_limits(run: Callable[..., Result], refused: Callable[..., str]) -> None:
    shown = [line.split() for line in run("limits").stdout.splitlines()]
    assert shown[2] == "GPU arch SMs block cluster grid".split()
    by_name = {line[0]: line[1:] for line in shown[3:]}
    largest = largest_head_dims(rnnc.cells.lstm, limits_of("A100")).dims
    wanted = f"sm_80 108 1 x {largest['block']} - 1 x {largest['grid']}"
    assert by_name["A100"] == wanted.split()
    assert set(by_name) == {limits.name.split()[0] for limits in PRESETS}
    found = json.loads(run("limits", "--json").stdout)
    assert found["command"] == "rnnc limits --cell lstm --dtype bfloat16 --heads 1 --json"
    a100 = next(gpu for gpu in found["gpus"] if gpu["arch"] == "sm_80")
    assert (a100["multiprocessors"], a100["largest"]) == (108, largest)
    two = run("limits", "--cell", "mingru", "--dtype", "float32", "--heads", "2").stdout
    assert "mingru, float32" in two
    assert " 2 x " in two
    assert "heads=0" in refused("limits", "--heads", "0")
    assert "no cell of the name 'lstmm'" in refused("limits", "--cell", "lstmm")


def test_the_command_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rnnc", "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"rnnc {rnnc.__version__}\n"


def test_the_package_tells_its_version() -> None:
    assert rnnc.__version__ == metadata.version("rnnc")
