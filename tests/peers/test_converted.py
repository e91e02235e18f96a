"""Networks of other packages compute the same after `rnnc.convert`: `make test-peers` runs them."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

import pytest
import rnnc
import torch
from torch import nn

FOLDER = Path(__file__).parents[2] / "benchmarks" / "peers"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Of the largest number of a tensor: rounding, through a few tens of steps and their gradients.
CLOSE = {torch.float64: 1e-12, torch.float32: 2e-5}


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    """Torch's modules and ours would round to TF32 on a GPU."""
    monkeypatch.setattr(torch.backends.cudnn.rnn, "fp32_precision", "ieee")


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


networks, times = load("networks"), load("times")


def build(name, dtype=torch.float32):
    """A small network on this machine's device, its call, and the same network converted."""
    network = networks.NETWORKS[name]
    pytest.importorskip(network.package, reason=f"{network.package} is not installed")
    torch.manual_seed(0)
    model, call = network.build(12, 4, 9)
    model.to(DEVICE, dtype)
    ours = copy.deepcopy(model)
    report = rnnc.convert(ours, force=True)
    was = [n for n, m in model.named_modules() if isinstance(m, nn.RNNBase | nn.RNNCellBase)]
    assert was
    assert list(report.replaced) == was, str(report)
    return model, ours, call


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_outputs_and_gradients_stay(name, dtype):
    if dtype == torch.float64 and networks.NETWORKS[name].package == "sb3_contrib":
        pytest.skip("sb3_contrib makes float32 of its observations")
    model, ours, call = build(name, dtype)
    (before, d_before), (after, d_after) = times.run(model, call), times.run(ours, call)
    assert before.keys() == after.keys()
    assert d_before.keys() == d_after.keys()
    if "samples" not in before:
        assert d_before.keys() == dict(model.named_parameters()).keys()
    for kind, these, those in (("output", before, after), ("gradient", d_before, d_after)):
        for key, tensor in these.items():
            assert tensor.abs().max() > 0, f"{kind} {key} is 0: nothing is compared"
            apart = (those[key] - tensor).abs().max() / tensor.abs().max()
            assert apart < CLOSE[dtype], f"{kind} {key}"


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_training_goes_on_from_a_checkpoint_of_the_other(name):
    model, ours, call = build(name)
    if any(not out.requires_grad for out in call(model).values()):
        pytest.skip("a call without gradients")
    optimizers = [torch.optim.Adam(each.parameters(), 1e-2) for each in (model, ours)]
    for _ in range(3):
        for each, optimizer in zip((model, ours), optimizers, strict=True):
            times.run(each, call)
            optimizer.step()
    trained = copy.deepcopy(model.state_dict())
    for key, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, trained[key], rtol=1e-3, atol=1e-4, msg=key)
    saved = copy.deepcopy(ours.state_dict())
    model.load_state_dict(saved)
    ours.load_state_dict(trained)
    for key in saved:
        assert torch.equal(model.state_dict()[key], saved[key]), key
        assert torch.equal(ours.state_dict()[key], trained[key]), key


def test_times_are_written_without_paths(tmp_path, capsys, monkeypatch):
    pytest.importorskip("stanza")
    small = dataclasses.replace(networks.NETWORKS["stanza Tokenizer"], sizes=(12, 4, 9))
    monkeypatch.setitem(times.NETWORKS, "stanza Tokenizer", small)
    times.main(device="cpu", budget=0, only="Tokenizer", force=False, output=tmp_path)
    assert "2 of 2" in capsys.readouterr().out
    (file,) = tmp_path.glob("peers-cpu-*.json")
    found = json.loads(file.read_text())["networks"]["stanza Tokenizer"]
    assert found["ms"]["rnnc"]["fastest"] > 0
    assert str(Path.home()) not in file.read_text()


def test_a_missing_package_is_left_out_with_a_reason(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "stanza.models.tokenization.model", None)
    times.main(device="cpu", budget=0, only="Tokenizer", force=False, output=None)
    assert "stanza Tokenizer: left out, " in capsys.readouterr().out
