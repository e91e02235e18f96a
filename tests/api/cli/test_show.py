"""`rnnc show`: equations, backward, LaTeX, sources and JSON of a cell."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import rnnc
from typer.testing import Result

GOOD = '''\
import rnnc
from rnnc import Constant, Gate, State, constant, tanh


@rnnc.cell
def leaky(g: Gate, h: State, alpha: Constant = constant(0.1)):
    """A leaky unit."""
    return (1 - alpha) * h + alpha * tanh(g)
'''


pytestmark = pytest.mark.usefixtures("folder")


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def test_show_gives_the_equations(run: Callable[..., Result]) -> None:
    assert run("show", "elman").stdout.splitlines() == [
        "elman: Simple recurrent network (Elman, 1990).",
        "  g = x_g + R_g h + b_g",
        "  h' = tanh(g)",
        "  recurrence: dense: R_g multiplies h",
    ]


def test_show_gives_the_values_that_a_cell_starts_from(run: Callable[..., Result]) -> None:
    write("cell.py", GOOD)
    assert "  alpha = 0.1\n" in run("show", "cell.py").stdout
    assert "  nu is learned, a value per unit, and starts at -4\n" in run("show", "fastgrnn").stdout


@pytest.mark.usefixtures("noisy_file")
def test_show_says_what_is_drawn_and_where_a_mean_is_not_enough(run: Callable[..., Result]) -> None:
    assert run("show", "noisy.py").stdout.splitlines()[2:9] == [
        "  keep ~ bernoulli(0.25)",
        "  xi ~ normal(0, 1), once per sequence",
        "  h' = keep*dt*h + (1 - keep)*tanh(g + xi)",
        "  dt is an input of each step, which no weight multiplies",
        "  keep is drawn by the call where it is not passed; without samples it is its mean, 0.25",
        "  xi is drawn by the call where it is not passed; without samples it is its mean, 0",
        "  the mean of tanh(g + xi) is not its value at the mean of xi",
    ]


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


def test_show_gives_the_source_of_reversed_time(run: Callable[..., Result]) -> None:
    text = run("show", "lstm", "--what", "cpp", "--reverse").stdout
    assert text.rstrip() == rnnc.cells.lstm.cpp(reverse=True).code.rstrip()
    text = run("show", "lstm", "--what", "cuda", "--reverse").stdout
    assert text.rstrip() == rnnc.cells.lstm.cuda(reverse=True).code.rstrip()
    assert "#define RNNC_REVERSE" in text
    refused = run("show", "lstm", "--reverse")
    assert "--what equations has no reversed time" in refused.output
