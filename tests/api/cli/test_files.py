"""Cells in a user's file: how the command finds them, and what it says about errors in the file."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rnnc.cli.app import app
from typer.testing import CliRunner, Result

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
    Path(name).write_text(text, encoding="utf-8")


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
        "  write:  from rnnc import tanh, and tanh(x)\n"
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
            "raise BaseException('x')\n",
            "cell.py:1\n  1 | raise BaseException('x')\n  found:  BaseException: x\n"
            "  wanted: a file that loads: rnnc runs it to find its cells\n",
        ),
        (
            "class E(Exception):\n    def __str__(self): return self.text\nraise E\n",
            "cell.py:3\n  3 | raise E\n  found:  E: its text is not known: AttributeError\n",
        ),
        (
            "raise GeneratorExit\n",
            "cell.py:1\n  1 | raise GeneratorExit\n  found:  GeneratorExit\n",
        ),
        (
            GOOD.replace("A leaky unit", r"A \ud800 unit"),
            "leaky, cell.py:5\n  5 | @rnnc.cell\n  found:  the docstring's '\\ud800', which",
        ),
        (
            "x = 1\n",
            "cell.py\n  found:  no cell among the names of the file\n"
            "  wanted: at least one function decorated with @rnnc.cell\n",
        ),
    ],
    ids=[
        "syntax",
        "module",
        "name",
        "run",
        "exit",
        "base",
        "no text",
        "generator",
        "surrogate",
        "no cell",
    ],
)
def test_a_file_that_does_not_load_is_one_message(
    text: str, wanted: str, refused: Callable[..., str]
) -> None:
    write("cell.py", text)
    assert refused("check", "cell.py").startswith(wanted)


def test_a_path_that_the_system_refuses_is_one_message(refused: Callable[..., str]) -> None:
    name = f"{300 * 'x'}.py"
    assert refused("show", name).startswith(f"{name}\n  found:  File name too long\n  wanted: ")


def test_letters_that_the_output_lacks_are_printed_as_numbers() -> None:
    write("cell.py", GOOD.replace("A leaky unit", "カ"))
    latin = CliRunner(charset="latin-1").invoke(app, ["show", "cell.py"])
    assert latin.exit_code == 0
    assert latin.stdout.startswith("leaky: \\u30ab.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has /dev/full")
@pytest.mark.parametrize("words", [["list"], ["show", "lstm", "--what", "json"]], ids=" ".join)
def test_a_full_disk_is_one_message(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "rnnc", *words]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(b"output\n  found:  No space left on device\n  wanted: ")


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
