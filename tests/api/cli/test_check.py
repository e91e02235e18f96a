"""`rnnc check`: what passes, what fails, and the reason that it prints."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
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
    Path(name).write_text(text, encoding="utf-8")


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


@pytest.mark.usefixtures("noisy_file")
def test_check_says_what_is_drawn(run: Callable[..., Result]) -> None:
    result = run("check", "noisy.py")
    assert result.exit_code == 0, result.output
    assert "states h; drawn keep xi\n" in result.stdout
    assert "until then: 12 bytes per step and unit in float32, 4 of them drawn\n" in result.stdout
    assert "  the mean of tanh(g + xi) is not its value at the mean of xi\n" in result.stdout


def test_check_takes_finite_differences_of_a_cell_that_stops_a_gradient(
    run: Callable[..., Result],
) -> None:
    assert "finite differences: agree" in run("check", "slstm").stdout


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
    from rnnc.runtime.scan import scan
    from rnnc.verify import inputs as trial

    def twice(cell, wx, *rest, backend, **named):
        return scan.scan(cell, 2 * wx if backend == "cpu" else wx, *rest, backend=backend, **named)

    monkeypatch.setattr(trial, "scan", twice)
    result = run("check", "elman", "--seed", "1")
    assert result.exit_code == 1
    assert "failed: the output h differs from autograd by " in result.stdout
    assert "failed: the gradient d_x_g differs from autograd by " in result.stdout


def test_no_compiler_is_said_and_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    from rnnc.runtime.cpu.compile import _error

    monkeypatch.setenv("CXX", "no-such-compiler")
    _error.cache_clear()
    try:
        # A cell that no other test compiled: kernels once loaded need no compiler.
        write("cell.py", GOOD.replace("0.1", "0.1625"))
        assert "found:  no `no-such-compiler` on the PATH\n" in refused("check", "cell.py")
    finally:
        _error.cache_clear()


def test_an_unknown_word_does_not_stop_the_check_of_others(run: Callable[..., Result]) -> None:
    result = run("check", "no_such_cell", "elman", "--seed", "1")
    assert result.exit_code == 1
    assert "no cell of the name 'no_such_cell'" in result.stderr
    assert result.stdout.endswith("  passed, seed 1\n")


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_that_torch_does_not_take_is_refused(seed: int, run: Callable[..., Result]) -> None:
    result = run("check", "elman", "--seed", str(seed))
    assert result.exit_code == 2
    assert "--seed" in result.stderr


def test_check_names_the_gradient_that_finite_differences_find(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    from rnnc.runtime.scan import scan
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


def test_check_names_the_gradient_of_an_input_that_no_weight_multiplies(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    from rnnc.runtime.scan import scan
    from rnnc.verify import inputs as trial

    def wrong(cell, *rest, inputs, **named):  # type: ignore[no-untyped-def]
        # Half of the gradient, and the whole value.
        halved = {name: t / 2 + t.detach() / 2 for name, t in inputs.items()}
        return scan.scan(cell, *rest, inputs=halved, **named)

    monkeypatch.setattr(trial, "scan", wrong)
    text = GOOD.replace("Constant, Gate,", "Constant, Gate, Input,")
    text = text.replace("h: State,", "h: State, dt: Input,").replace("tanh(g)", "tanh(g * dt)")
    write("cell.py", text)
    said = run("check", "cell.py", "--seed", "1").stdout
    assert "finite differences disagree: the gradient of h over time by dt\n" in said
