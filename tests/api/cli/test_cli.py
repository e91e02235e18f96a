"""The `rnnc` command: each of its words, and what it says to each bad one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.largest import largest_head_dims
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from typer.testing import Result

GOOD = '''\
import rnnc
from rnnc import Constant, Gate, State, constant, tanh


@rnnc.cell
def leaky(g: Gate, h: State, alpha: Constant = constant(0.1)):
    """A leaky unit."""
    return (1 - alpha) * h + alpha * tanh(g)
'''
# Softmax as a textbook writes it: inf / inf above 88.7 in float32.
UNSTABLE = """\

from rnnc import exp


@rnnc.cell
def unstable(g: Gate, f: Gate, h: State):
    return exp(g) / (exp(g) + exp(f)) * h + tanh(f)
"""


pytestmark = pytest.mark.usefixtures("folder")


def write(name: str, text: str) -> None:
    Path(name).write_text(text)


def test_version_is_the_package_s(run: Callable[..., Result]) -> None:
    assert run("--version").stdout == f"rnnc {metadata.version('rnnc')}\n"


def test_no_word_shows_the_commands(run: Callable[..., Result]) -> None:
    output = run().output
    assert all(word in output for word in ("list", "show", "check"))


def test_list_has_a_line_for_each_cell(run: Callable[..., Result]) -> None:
    result = run("list")
    header, *lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert header.split() == "name gates states params recurrent forward + backward paper".split()
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
        "operations": {"forward": 9, "backward": 20},
    }
    assert listed["leaky_rate"]["constants"] == {"alpha": 0.1}
    assert listed["sru"]["diagonal"][0][1] == "c"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gru", "dense"),
        ("indrnn", "diagonal"),
        ("mingru", "none"),
        ("cornn", "dense from y z"),
        ("sru", "diagonal from c"),
    ],
)
def test_list_names_the_kind_of_recurrence(
    name: str, kind: str, run: Callable[..., Result]
) -> None:
    line = next(li for li in run("list").stdout.splitlines() if li.startswith(f"{name} "))
    assert f"  {kind}  " in line


def test_list_leaves_papers_out_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    assert "paper" not in run("list").stdout
    monkeypatch.setenv("COLUMNS", "160")
    assert "paper" in run("list").stdout


def test_show_gives_the_equations(run: Callable[..., Result]) -> None:
    assert run("show", "elman").stdout.splitlines() == [
        "elman: Simple recurrent network (Elman, 1990).",
        "  g = x_g + R_g h + b_g",
        "  h' = tanh(g)",
    ]


def test_show_gives_the_values_that_a_cell_starts_from(run: Callable[..., Result]) -> None:
    write("cell.py", GOOD)
    assert "  alpha = 0.1\n" in run("show", "cell.py").stdout
    assert "  nu is learned, a value per unit, and starts at -4\n" in run("show", "fastgrnn").stdout


def test_show_gives_the_backward(run: Callable[..., Result]) -> None:
    first, *lines = run("show", "lstm", "--what", "backward").stdout.splitlines()
    assert first.startswith("# d_x is the gradient of x")
    assert tuple(lines) == rnnc.cells.lstm.backward_equations()


def test_show_gives_latex(run: Callable[..., Result]) -> None:
    assert run("show", "lstm", "--what", "latex").stdout == rnnc.cells.lstm.latex() + "\n"


@pytest.mark.parametrize(("dtype", "scalar"), [("float32", "float"), ("float64", "double")])
def test_show_gives_the_source_to_the_byte(
    dtype: str, scalar: str, run: Callable[..., Result]
) -> None:
    text = run("show", "lstm", "--what", "cpp", "--dtype", dtype).stdout
    assert text.rstrip() == rnnc.cells.lstm.cpp(dtype).code.rstrip()
    assert f"using real = {scalar};" in text


def test_show_gives_json_that_reads_back(run: Callable[..., Result]) -> None:
    text = run("show", "gru", "--what", "json").stdout
    assert json.loads(text)["name"] == "gru"
    assert rnnc.Cell.from_json(text).fingerprint == rnnc.cells.gru.fingerprint


def test_show_colours_the_source_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    plain = run("show", "lstm", "--what", "cpp").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    coloured = run("show", "lstm", "--what", "cpp").stdout
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain
    # No wrapping, on a terminal that is narrower than the text.
    assert len(coloured.splitlines()) == len(plain.splitlines())


def test_show_finds_a_cell_in_a_file(run: Callable[..., Result]) -> None:
    write("cell.py", GOOD + UNSTABLE)
    assert run("show", "cell.py:leaky").stdout.startswith("leaky: A leaky unit.\n")


def test_a_file_imports_what_lies_beside_it_and_leaves_nothing(
    folder: Path, run: Callable[..., Result]
) -> None:
    (folder / "inside").mkdir()
    write("inside/scale.py", "FACTOR = 0.5\n")
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += "from scale import FACTOR\n@dataclass\nclass Size:\n    units: int = 3\n"
    write("inside/cell.py", text + GOOD.replace("0.1", "FACTOR"))
    assert "alpha = 0.5" in run("show", "inside/cell.py").stdout
    assert not list(folder.rglob("cell*.pyc"))


def test_check_passes_a_good_cell(run: Callable[..., Result]) -> None:
    result = run("check", "elman", "--seed", "1")
    assert result.exit_code == 0, result.output
    rows = [line.split()[0] for line in result.stdout.splitlines()]
    assert rows[:1] == ["elman"]
    assert rows[2:7] == ["h", "d_x_g", "d_R_g", "d_b_g", "d_h"]
    assert "operations per unit: 1 forward, 3 backward" in result.stdout
    assert "saved for the backward: nothing; states h_next" in result.stdout
    assert "finite differences: agree" in result.stdout
    assert (
        "float32 at 22 extreme points: 0 values are not finite, though they are in float64"
        in result.stdout
    )
    assert result.stdout.endswith("  passed, seed 1\n")


def test_check_says_why_finite_differences_are_not_taken(run: Callable[..., Result]) -> None:
    assert "not taken: stop_gradient is meant to differ" in run("check", "slstm").stdout


def test_check_takes_all_cells_of_a_file_and_fails_the_unstable_one(
    run: Callable[..., Result],
) -> None:
    write("cell.py", GOOD + UNSTABLE)
    result = run("check", "cell.py")
    leaky, unstable = result.stdout.split("unstable\n")
    assert result.exit_code == 1
    assert "  passed, seed" in leaky
    assert "failed: h is nan in float32, 0 in float64, at g = 89, f = 0, h = 0" in unstable
    assert "  failed, seed" in unstable


def test_check_takes_one_cell_of_a_file_and_several_words(run: Callable[..., Result]) -> None:
    write("cell.py", GOOD + UNSTABLE)
    result = run("check", "cell.py:leaky", "elman")
    assert result.exit_code == 0
    assert result.stdout.count("  passed, seed") == 2


def test_check_fails_a_cell_that_is_not_finite_for_ordinary_inputs(
    run: Callable[..., Result],
) -> None:
    write("cell.py", GOOD.replace("tanh", "log"))
    result = run("check", "cell.py")
    assert result.exit_code == 1
    assert "failed: the output h is not finite for ordinary inputs" in result.stdout


def test_check_fails_a_wrong_gradient(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    # Other kernels for the same cell: a reference that is not theirs.
    from rnnc.runtime import scan
    from rnnc.verify import inputs as trial

    def twice(cell, wx, *rest, backend, **named):
        return scan.scan(cell, 2 * wx if backend == "cpu" else wx, *rest, backend=backend, **named)

    monkeypatch.setattr(trial, "scan", twice)
    result = run("check", "elman", "--seed", "1")
    assert result.exit_code == 1
    assert "failed: the output h differs from autograd by " in result.stdout
    assert "failed: the gradient d_x_g differs from autograd by " in result.stdout


def test_an_unknown_name_is_answered_with_the_nearest(refused: Callable[..., str]) -> None:
    assert refused("show", "LSTN") == (
        "rnnc.cells\n"
        "  found:  no cell of the name 'LSTN'\n"
        "  wanted: a name that `rnnc list` shows, or a cell in a file\n"
        "  write:  lstm or slstm\n"
    )
    assert "  write:  my_cell.py:my_cell\n" in refused("check", "nothing_like_it")


def test_an_unknown_name_in_a_file_is_answered_with_the_nearest(
    refused: Callable[..., str],
) -> None:
    write("cell.py", GOOD + UNSTABLE)
    assert refused("show", "cell.py:leeky") == (
        "cell.py\n"
        "  found:  no cell of the name 'leeky'\n"
        "  wanted: one of the file's cells: leaky, unstable\n"
        "  write:  cell.py:leaky\n"
    )
    assert "found:  no cell of the name 'tanh'; there it is" in refused("show", "cell.py:tanh")


def test_show_asks_which_of_several_cells(refused: Callable[..., str]) -> None:
    write("cell.py", GOOD + UNSTABLE)
    assert refused("show", "cell.py") == (
        "cell.py\n  found:  2 cells: leaky, unstable\n  wanted: one cell\n  write:  cell.py:leaky\n"
    )


def test_a_broken_cell_is_shown_with_its_line(refused: Callable[..., str]) -> None:
    write(
        "cell.py",
        GOOD.replace("tanh(g)", "math.tanh(g)").replace("import rnnc", "import rnnc, math"),
    )
    assert refused("check", "cell.py") == (
        "leaky, cell.py:8\n"
        "  8 |     return (1 - alpha) * h + alpha * math.tanh(g)\n"
        "  found:  `g` turned into a Python number, as the functions of math do\n"
        "  wanted: a function of rnnc's table, which has a derivative and a CUDA spelling\n"
        "  write:  from rnnc import tanh, exp, … and call that one\n"
    )


def test_a_broken_declaration_is_shown_with_its_line(refused: Callable[..., str]) -> None:
    write("cell.py", GOOD.replace("constant(0.1)", 'constant("a")'))
    assert refused("show", "cell.py").startswith(
        'cell.py:6\n  6 | def leaky(g: Gate, h: State, alpha: Constant = constant("a")):\n'
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "import rnnc\n\ndef f(:\n",
            "cell.py:3\n  3 | def f(:\n  found:  SyntaxError: invalid syntax\n"
            "  wanted: a file that Python can read\n"
            "  write:  lines that `python -m py_compile` accepts\n",
        ),
        (
            "import rnnc\nimport no_such_module\n",
            "cell.py:2\n  2 | import no_such_module\n"
            "  found:  ModuleNotFoundError: No module named 'no_such_module'\n"
            "  wanted: a module that this Python has, or that lies beside the file\n",
        ),
        (
            "from rnnc import tanhh\n",
            "cell.py:1\n  1 | from rnnc import tanhh\n"
            "  found:  ImportError: cannot import name 'tanhh' from 'rnnc'",
        ),
        (
            "x = 1\ny = x / 0\n",
            "cell.py:2\n  2 | y = x / 0\n  found:  ZeroDivisionError: division by zero\n"
            "  wanted: a file that loads: rnnc runs it to find its cells\n",
        ),
        ("raise SystemExit\n", "cell.py:1\n  1 | raise SystemExit\n  found:  SystemExit\n"),
        (
            "x = 1\n",
            "cell.py\n  found:  no cell among the names of the file\n"
            "  wanted: at least one function decorated with @rnnc.cell\n",
        ),
    ],
    ids=["syntax", "module", "name", "run", "exit", "no cell"],
)
def test_a_file_that_does_not_load_is_one_message(
    text: str, wanted: str, refused: Callable[..., str]
) -> None:
    write("cell.py", text)
    assert refused("check", "cell.py").startswith(wanted)


def test_errors_of_rnnc_in_a_file_keep_their_words(refused: Callable[..., str]) -> None:
    write("cell.py", "import rnnc\nrnnc.cells.lstn\n")
    assert refused("show", "cell.py").startswith(
        "rnnc.cells, cell.py:2\n  2 | rnnc.cells.lstn\n  found:  no cell of the name 'lstn'\n"
        "  wanted: a name that `rnnc list` shows, or a cell in a file\n  write:  lstm"
    )
    write("cell.py", "import rnnc\nrnnc.RNN(rnnc.cells.gru, 3, 4, heads=3)\n")
    assert refused("show", "cell.py") == (
        "heads, cell.py:2\n  2 | rnnc.RNN(rnnc.cells.gru, 3, 4, heads=3)\n"
        "  found:  3 with hidden_size=4\n"
        "  wanted: a divisor of hidden_size\n"
        "  write:  heads=2, or hidden_size=3\n"
    )


def test_a_missing_file_is_answered_with_those_beside_it(
    folder: Path, refused: Callable[..., str]
) -> None:
    write("cell.py", GOOD)
    assert refused("show", "cel.py") == (
        "cel.py\n  found:  no such file\n  wanted: a Python file that defines cells\n"
        "  write:  cell.py\n"
    )
    (folder / "inside.py").mkdir()
    assert "  found:  a folder\n" in refused("show", "inside.py")
    assert "  found:  no such file\n" in refused("show", "nowhere/cell.py:leaky")


def test_no_compiler_is_said_and_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    from rnnc.runtime.cpu.compile import find_compiler

    monkeypatch.setenv("CXX", "no-such-compiler")
    find_compiler.cache_clear()
    try:
        # A cell that no other test compiled: kernels once loaded need no compiler.
        write("cell.py", GOOD.replace("0.1", "0.1625"))
        assert "found:  no `no-such-compiler` on the PATH\n" in refused("check", "cell.py")
    finally:
        find_compiler.cache_clear()


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


BROKEN = """

@rnnc.cell
def broken(g: Gate, h: State):
    return missing(g)
"""


def test_what_a_file_prints_does_not_land_in_a_source(
    folder: Path, run: Callable[..., Result]
) -> None:
    write("cell.py", GOOD + "print('printed by the file')\n")
    result = run("show", "cell.py", "--what", "cpp")
    assert result.exit_code == 0
    assert "printed by the file" not in result.stdout
    assert "printed by the file" in result.stderr
    assert result.stdout.rstrip() == run("show", "cell.py", "--what", "cpp").stdout.rstrip()


def test_a_cell_with_an_error_does_not_hide_the_others_of_its_file(
    folder: Path, run: Callable[..., Result], refused: Callable[..., str]
) -> None:
    write("cell.py", GOOD.replace("@rnnc.cell", BROKEN + "\n\n@rnnc.cell"))
    assert run("show", "cell.py:leaky").stdout.startswith("leaky: A leaky unit.\n")
    for word in ("cell.py:broken", "cell.py"):
        result = run("check", word)
        assert result.exit_code == 1
        assert "broken, cell.py:" in result.stderr
        assert "found:  a call of the unknown name `missing`" in result.stderr
        assert ("  passed, seed" in result.stdout) is (word == "cell.py")
    assert "found:  a call of the unknown name `missing`" in refused("show", "cell.py:broken")
    assert "found:  2 cells: broken, leaky\n" in refused("show", "cell.py")


def test_a_line_that_uses_a_cell_with_an_error_fails_for_its_reason(
    folder: Path, refused: Callable[..., str]
) -> None:
    for line in ("broken.with_constants(a=1)", "rnnc.RNN(broken, 2, 3)", "broken()"):
        write("cell.py", GOOD + BROKEN + f"\n{line}\n")
        assert "found:  a call of the unknown name `missing`" in refused("show", "cell.py:leaky")


def test_an_unknown_word_does_not_stop_the_check_of_others(run: Callable[..., Result]) -> None:
    result = run("check", "no_such_cell", "elman", "--seed", "1")
    assert result.exit_code == 1
    assert "no cell of the name 'no_such_cell'" in result.stderr
    assert result.stdout.endswith("  passed, seed 1\n")


def test_check_names_the_gradient_that_finite_differences_find(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    from rnnc.runtime import scan
    from rnnc.verify import inputs as trial

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.clone()

        @staticmethod
        def backward(ctx, d):  # type: ignore[no-untyped-def]
            return 3 * d

    def wrong(cell, wx, R, *rest, **named):  # type: ignore[no-untyped-def]
        return scan.scan(cell, wx, Wrong.apply(R), *rest, **named)

    monkeypatch.setattr(trial, "scan", wrong)
    said = run("check", "elman", "--seed", "1").stdout
    assert "finite differences disagree: the gradient of h over time by R\n" in said


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


def test_the_package_tells_its_version() -> None:
    assert rnnc.__version__ == metadata.version("rnnc")
