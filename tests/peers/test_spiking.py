"""`examples/spiking.py`: `make test-peers` installs snnTorch."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

PATH = Path(__file__).parents[2] / "examples" / "spiking.py"


def load():
    spec = importlib.util.spec_from_file_location("example_spiking", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def example(monkeypatch):
    """The example with small sizes."""
    for package in ("matplotlib", "snntorch"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    module = load()
    for name, value in {"SAMPLES": 64, "BATCH": 32, "STEPS": 30}.items():
        monkeypatch.setattr(module, name, value)
    return module


def test_what_to_install_is_said(monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.setitem(sys.modules, "snntorch", None)
    with pytest.raises(SystemExit, match="pip install snntorch"):
        load()


def test_each_input_spikes_once_and_classes_differ_in_time_alone(example):
    x, labels = example.curves(0)
    assert torch.equal(x.sum(1), torch.ones(128, example.INPUTS))
    assert labels.bincount().tolist() == [32] * 4
    means = torch.stack([x[labels == c].mean(0) for c in range(4)])
    assert (means[0] - means[1]).abs().sum() > 10


def test_loss_and_gradients_of_the_first_step_are_snntorchs(example):
    torch.manual_seed(0)
    x, labels = example.curves(0)
    ours = example.Rnnc()
    theirs = example.SnnTorch(ours)
    apart = example.first_step(ours, theirs, x, labels)
    assert set(apart) == {"loss", *dict(ours.named_parameters())}
    assert max(apart.values()) < 1e-4
    assert torch.equal(ours(x)[1], theirs(x)[1])
    theirs.layer.spike_grad = example.snntorch.surrogate.fast_sigmoid(slope=20)
    apart = example.first_step(ours, theirs, x, labels)
    assert apart["loss"] == 0
    assert apart["layer.weight_hh_l0"] > 1e-2


def test_a_short_run_counts_spikes_and_draws(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(example, "within_spread", lambda ours, theirs: True)
    example.main(out=tmp_path / "demo", epochs=1, seeds=2)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count(f"0 of {2 * 64 * 30 * example.HIDDEN}") == 2
    assert (tmp_path / "demo" / "spiking.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads((tmp_path / "demo" / "spiking.json").read_text("utf-8"))
    assert told["machine"]["torch"] == torch.__version__
    assert max(told["first_step"].values()) < 1e-4
    assert told["wrong"] == []
    for runs in told["runs"].values():
        assert [(len(run["losses"]), run["others"]) for run in runs] == [(1, 0)] * 2


def test_a_curve_outside_the_spread_is_noticed(example):
    def found(*losses):
        return [example.Curve(list(pair), 1.0, 1.0, 0, 1) for pair in losses]

    ours = found((1.0, 0.5), (1.2, 0.7))
    assert example.within_spread(ours, found((1.1, 0.6), (1.3, 0.8)))
    assert not example.within_spread(ours, found((1.1, 0.9), (1.2, 0.9)))


def test_speed_is_that_of_both_layers(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        example, "milliseconds", lambda model, x: 2.0 * isinstance(model, example.SnnTorch) + 1
    )
    path = tmp_path / "demo" / "spiking_speed.json"
    example.compare_speed(2, 4, 6, path)
    assert "B 2, 4 units, T 6, forward + backward: rnnc 1 ms, snnTorch 3 ms, 3.0 times" in " ".join(
        capsys.readouterr().out.split()
    )
    told = json.loads(path.read_text("utf-8"))
    assert told["milliseconds"] == {"rnnc": 1.0, "snnTorch": 3.0}
    assert (told["batch"], told["units"], told["steps"]) == (2, 4, 6)
