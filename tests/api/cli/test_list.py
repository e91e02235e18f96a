"""`rnnc list`: a line per cell, as a table or as JSON, also of other packages' cells."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rnnc
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("folder")


def test_list_has_a_line_for_each_cell(run: Callable[..., Result]) -> None:
    result = run("list")
    header, *lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert header.split() == "name gates states params recurrence forward + backward paper".split()
    assert [line.split()[0] for line in lines] == list(rnnc.cells.names())
    lstm = next(line for line in lines if line.startswith("lstm "))
    assert lstm.split()[1:11] == "i f z o h c dense 9 + 20".split()
    assert lstm.endswith("Long short-term memory (Hochreiter & Schmidhuber, 1997).")


def test_list_as_json_has_the_same_cells(run: Callable[..., Result]) -> None:
    listed = {cell["name"]: cell for cell in json.loads(run("list", "--json").stdout)}
    assert list(listed) == list(rnnc.cells.names())
    assert listed["lstm"] == {
        "name": "lstm",
        "doc": "Long short-term memory (Hochreiter & Schmidhuber, 1997).",
        "gates": ["i", "f", "z", "o"],
        "states": ["h", "c"],
        "params": [],
        "constants": {},
        "dense": [["i", "h"], ["f", "h"], ["z", "h"], ["o", "h"]],
        "diagonal": [],
        "recurrence": {
            "kind": "dense",
            "reason": "R_i, R_f, R_z and R_o multiply h",
            "backward": "dense",
        },
        "further_exchanges": 0,
        "operations": {"forward": 9, "backward": 20},
    }
    assert listed["layer_norm_lstm"]["further_exchanges"] == 2
    assert listed["leaky_rate"]["constants"] == {"alpha": 0.1}
    assert listed["sru"]["diagonal"][0][1] == "c"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gru", "dense"),
        ("indrnn", "diagonal"),
        ("mingru", "affine"),
        ("cornn", "dense from y z"),
        ("sru", "diagonal from c"),
        ("gru_reset_first", "dense, 1 further exchange"),
        ("wmc_lstm", "dense from h c, 1 further exchange"),
        ("joint_norm_lstm", "dense, 2 further exchanges"),
        ("mgu3", "dense"),
    ],
)
def test_list_names_the_kind_of_recurrence(
    name: str, kind: str, run: Callable[..., Result]
) -> None:
    line = next(li for li in run("list").stdout.splitlines() if li.startswith(f"{name} "))
    assert f"  {kind}  " in line


def test_list_shortens_a_row_of_many_names(run: Callable[..., Result]) -> None:
    line = next(li for li in run("list").stdout.splitlines() if li.startswith("layer_norm_lstm "))
    assert "  i_x … o_h (8)  " in line
    assert "  gain_i_x … b_c (14)  " in line


def test_list_leaves_papers_out_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    assert "paper" not in run("list").stdout
    monkeypatch.setenv("COLUMNS", "160")
    assert "paper" in run("list").stdout


@pytest.fixture
def entry_points(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """`rnnc list`, where another package offers these cells."""
    (tmp_path / "their_cells.py").write_text(
        "import rnnc\nfrom rnnc import Gate, State, sin\nprint('printed')\n"
        "@rnnc.cell\ndef theirs(g: Gate, h: State):\n    return sin(g)\n"
    )
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    info = tmp_path / "their_cells-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-cells\nVersion: 1.0\n")

    def listed(points: str) -> subprocess.CompletedProcess[str]:
        (info / "entry_points.txt").write_text(f"[rnnc.cells]\n{points}")
        return subprocess.run(
            [sys.executable, "-m", "rnnc", "list"],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    return listed


def test_broken_entry_points_are_listed_with_their_errors(
    entry_points: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    result = entry_points(
        "theirs = their_cells:theirs\nlstm = their_cells:theirs\n"
        "gone = their_cells:gone\nexits = leaving:cell\nabsent = no_such_module:cell\n"
    )
    assert result.returncode == 0, result.stderr
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert set(rnnc.cells.names()) <= set(lines)
    assert lines["theirs"].split()[1:4] == ["g", "h", "dense"]
    assert lines["gone:"].startswith("gone: the entry point 'their_cells:gone', which raises Attr")
    assert "which raises SystemExit: 3" in lines["exits:"]
    assert "which raises ModuleNotFoundError" in lines["absent:"]
    assert (
        "'their_cells:theirs' is not used, since its name 'lstm' is that of a cell of the lib"
        in (result.stderr)
    )
    assert "printed" not in result.stdout
