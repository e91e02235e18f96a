"""Mamba and mLSTM of `examples/state_tracking.py`: `make test-peers` installs their packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

PACKAGES = {"mamba": "transformers", "mlstm": "xlstm"}


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    import state_tracking

    yield state_tracking
    for name in ("state_tracking", "parity", "tracking_tasks", "tracking_results"):
        del sys.modules[name]


@pytest.mark.parametrize("name", PACKAGES)
def test_fifty_steps(example, name, tmp_path, monkeypatch):
    pytest.importorskip(PACKAGES[name])
    for module in (example, example.parity):
        monkeypatch.setattr(module, "LONGEST", 48)
    monkeypatch.setattr(example.parity, "BATCH", 8)
    run = example.Run("cycle", name, 3e-3, 0, 50)
    found = json.loads(example.train(run, tmp_path).read_text())
    assert found["curve"]["50"] > 0.22  # the first labels are learned at once; chance is 0.2
    assert len(found["by_length"]) == 48
    assert example.extrapolated(found) > 0.1


@pytest.mark.parametrize("name", PACKAGES)
def test_models_do_not_see_later_tokens(example, name):
    pytest.importorskip(PACKAGES[name])
    torch.manual_seed(0)
    model = example.Classifier(example.body(name), 3, 5)
    tokens, _ = example.TASKS["cycle"].strings(4, 20, torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[:, 12:] = (changed[:, 12:] + 1) % 3
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :12], after[:, :12])
    assert not torch.allclose(before[:, 12:], after[:, 12:])
