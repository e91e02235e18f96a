"""The command line with a cell whose step has stages, which some kinds of plans run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("folder")

TEXT = """
from rnnc import Gate, State, cell, mean, sigmoid, tanh


@cell
def staged(r: Gate, n: Gate, h: State):
    return tanh(n(sigmoid(r) * h)) - mean(h)
"""
EXCHANGES = "2 exchanges between units: products with h and mean(…), then n(…)"


@pytest.fixture(autouse=True)
def _file(folder: Path) -> None:
    Path("staged.py").write_text(TEXT, encoding="utf-8")


def test_show_has_the_exchanges(run: Callable[..., Result]) -> None:
    lines = run("show", "staged.py:staged").stdout.splitlines()
    assert "  n(y) = x_n + R_n y + b_n" in lines
    assert f"  per step {EXCHANGES}" in lines


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("backward", "d_r = "),
        ("latex", "n_t(y) &= W_{n} x_t + R_{n} y"),
        ("cpp", "#define RNNC_STAGES"),
        ("json", '"tanh(n(sigmoid(r)*h)) - mean(h)"'),
    ],
)
def test_show_everything_that_needs_no_gpu(
    run: Callable[..., Result], what: str, shown: str
) -> None:
    result = run("show", "staged.py:staged", "--what", what)
    assert result.exit_code == 0
    assert shown in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("show", "staged.py:staged", "--what", "cuda", "--variant", "walk"),
        ("plan", "staged.py:staged", "--variant", "walk"),
    ],
    ids=lambda words: words[0],
)
def test_a_kind_without_stages_refuses_by_name(run: Callable[..., Result], command: tuple) -> None:
    result = run(*command)
    assert result.exit_code == 1
    *_, found, wanted, write = result.stderr.strip().splitlines()
    assert found == "  found:  `n(sigmoid(r)*h)`, a product with a value of the step"
    assert wanted == "  wanted: gates that are not called, and no reductions, for walk kernels"
    assert write == '  write:  variant="auto"'


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("show", "staged.py:staged", "--what", "cuda"), "#define RNNC_STAGES"),
        (("show", "staged.py:staged", "--what", "program"), "launch rnnc_forward"),
        (("plan", "staged.py:staged"), "wants gates that are not called"),
        (("limits", "--cell", "staged.py:staged"), "1 x 192        -  1 x 1792"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_commands_take_the_kinds_with_stages(
    run: Callable[..., Result], command: tuple, shown: str
) -> None:
    result = run(*command)
    assert result.exit_code == 0
    assert shown in result.stdout


def test_check_counts_exchanges_and_bytes(run: Callable[..., Result]) -> None:
    result = run("check", "staged.py", "--seed", "1")
    assert result.exit_code == 0, result.stdout
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert f"per step {EXCHANGES}" in lines
    # r, n and the argument of n, beside the state
    assert "kept until then: 16 bytes per step and unit in float32" in lines


def test_report_shows_which_kinds_refuse(run: Callable[..., Result]) -> None:
    assert run("report", "staged.py:staged", "-o", "staged.html").exit_code == 0
    page = Path("staged.html").read_text(encoding="utf-8")
    assert "no reductions, for walk kernels" in page
    assert "C++, both directions" in page
