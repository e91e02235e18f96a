"""`examples/neuron.py`: `make test-peers` installs scipy."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parents[2] / "examples" / "neuron.py"


def load():
    spec = importlib.util.spec_from_file_location("example_neuron", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def example(monkeypatch):
    """The example with two currents, for 30 ms."""
    for package in ("matplotlib", "scipy"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    module = load()
    monkeypatch.setattr(module, "DURATION", 30.0)
    monkeypatch.setattr(module, "CURRENTS", dict(list(module.CURRENTS.items())[:2]))
    return module


def test_what_to_install_is_said(monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.setitem(sys.modules, "scipy.integrate", None)
    with pytest.raises(SystemExit, match="pip install scipy"):
        load()


def test_spikes_are_those_of_scipy(example, tmp_path, capsys):
    example.main(out=tmp_path / "demo")
    shown = capsys.readouterr().out
    counts = [line.split("│")[2:4] for line in shown.splitlines() if "from 5 ms" in line]
    assert [tuple(map(int, pair)) for pair in counts] == [(2, 2), (3, 3)]
    assert (tmp_path / "demo" / "neuron.png").read_bytes().startswith(b"\x89PNG")


def test_sub_steps_that_are_too_long_are_noticed(example, tmp_path, monkeypatch, capsys):
    """Of 0.1 ms, of which one step of 0.1 ms has ten: the equations run ten times as fast."""
    monkeypatch.setattr(example, "CELL", example.CELL.with_constants(dt=0.1))
    with pytest.raises(example.typer.Exit) as stop:
        example.main(out=tmp_path)
    assert stop.value.exit_code == 1
    assert "Spikes differ by more than 0.05 ms" in capsys.readouterr().out


def test_spike_times_are_between_steps(example):
    v = np.array([-3.0, -1, 3, 5, -2, 0, 2])  # at the ends of steps of 0.1 ms
    np.testing.assert_allclose(example.spike_times(v), [0.225, 0.6])
    assert example.largest_difference(np.array([1.0]), np.array([])) == float("inf")
    assert example.largest_difference(np.array([1.0, 2]), np.array([1.5, 2])) == 0.5
