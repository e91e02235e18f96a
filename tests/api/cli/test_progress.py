"""Progress: on the error stream, a bar on a terminal, one line per stage elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import pytest
from rnnc.cli import progress
from rnnc.cli.app import app
from typer.testing import CliRunner

# A command in a process of its own, whose stages are shown at once.
COMMAND = """
from rnnc.cli import progress
from rnnc.cli.app import app
progress.PATIENCE = 0.0
app({words!r})
"""


@pytest.fixture
def at_once(monkeypatch):
    """Stages are shown from their begin on."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)


def on_a_terminal(words, tmp_path):
    """Standard output of a command, a file; and what it writes to a terminal besides."""
    ours, theirs = pty.openpty()
    out = tmp_path / "out.txt"
    environment = {**os.environ, "TERM": "xterm-256color", "RNNC_QUICK_COMPILE": "1"}
    environment |= {"RNNC_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "200"}
    shown = []

    def read():
        while True:
            try:
                shown.append(os.read(ours, 1 << 16))
            except OSError:  # how Linux ends a terminal
                return

    with out.open("w") as file:
        code = COMMAND.format(words=words)
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=file, stderr=theirs, env=environment
        )
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        assert process.wait(120) == 0
        reader.join(10)
    os.close(ours)
    return out.read_text(), b"".join(shown).decode()


def test_a_terminal_has_a_bar_and_a_file_only_the_results(tmp_path):
    out, shown = on_a_terminal(["check", "elman", "--seed", "1"], tmp_path)
    assert out.startswith("elman\n")
    assert out.endswith("  passed, seed 1\n")
    assert "\x1b" not in out
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "checking 1 cell " in text
    assert "0/1" in text
    assert "compiling C++ of elman, float64" in text
    assert shown.count("\x1b[2K") > 1  # the bar is drawn again, and removed at the end


def test_elsewhere_a_stage_has_one_line_and_no_escapes(run, at_once, folder):
    result = run("check", "elman", "irnn", "--seed", "1")
    assert result.exit_code == 0, result.output
    assert result.stderr == "checking 2 cells\n"
    assert result.stdout.count("passed, seed 1") == 2


def test_each_row_of_a_benchmark_is_a_stage(run, at_once, folder):
    sizes = "--heads 1 --head-dim 4 --batch 1 --steps 2 --repeat 1 --device cpu".split()
    result = run("bench", "--rows", "1,2", *sizes, "--contenders", "scan")
    assert result.exit_code == 0, result.output
    first, second = result.stderr.splitlines()
    assert first == "measuring 1 of 2: row 1: lstm, 1 x 4, batch 1, 2 steps"
    assert second == "measuring 2 of 2: row 2: lstm, 1 x 4, batch 1, 2 steps"


def test_a_short_command_shows_nothing(run, folder):
    result = run("plan", "elman", "--head-dim", "32")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_the_text_of_a_command_is_the_same_with_progress(run, at_once, folder, monkeypatch):
    words = ["show", "lstm", "--what", "cpp"]
    shown = run(*words)
    monkeypatch.setattr(progress, "PATIENCE", 600.0)
    assert run(*words).stdout == shown.stdout
    assert shown.stderr == "writing the C++ of lstm\n"


def test_colours_by_the_environment_do_not_reach_a_pipe_that_holds_results(run, at_once, folder):
    result = CliRunner(env={"FORCE_COLOR": "1", "TERM": "xterm"}).invoke(
        app, ["limits", "--cell", "indrnn"]
    )
    assert result.exit_code == 0, result.output
    assert "planning indrnn for each GPU" in result.stderr
    assert "\x1b[" in result.stderr  # a bar
    assert "planning" not in result.stdout


def test_a_slow_stage_is_shown_after_a_while(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    with progress.stage("waiting"):
        assert capsys.readouterr().err == ""
        for _ in range(100):
            threading.Event().wait(0.05)
            err = capsys.readouterr().err
            if err:
                break
    assert err == "waiting\n"
    assert capsys.readouterr().err == ""


def test_a_failure_ends_the_stage(monkeypatch, capsys, at_once):
    with pytest.raises(ValueError, match="wrong"), progress.stage("failing"):
        raise ValueError("wrong")
    assert capsys.readouterr().err == "failing\n"


def test_items_can_be_tracked_in_silence(capsys, at_once):
    assert list(progress.track(range(3), "counting", disable=True)) == [0, 1, 2]
    assert list(progress.track(iter(range(3)), "counting")) == [0, 1, 2]
    assert capsys.readouterr().err == "counting\n"
