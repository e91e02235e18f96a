"""The examples train on a GPU and learn what the reference learns."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import pytest
import rnnc
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = 30


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(char_lm, cell, backend, monkeypatch) -> list[float]:
    """Bits per byte of the first steps of training."""
    with monkeypatch.context() as patched:
        patched.setattr(rnnc, "RNN", functools.partial(rnnc.RNN, backend=backend))
        torch.manual_seed(0)
        model = char_lm.ByteModel(cell, 64).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), char_lm.LEARNING_RATE)
    train = char_lm.windows(char_lm.source_files()[0][:40], "cuda")
    found, states = [], None
    for window in train[:STEPS]:
        loss, states = char_lm.read(model, window, states)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("name", ["lstm", "gru", "slstm"])
def test_char_lm_learns_as_with_the_reference(name, monkeypatch):
    char_lm, cell = example("char_lm"), rnnc.cells.get(name)
    ours = losses(char_lm, cell, "cuda", monkeypatch)
    wanted = losses(char_lm, cell, "reference", monkeypatch)
    assert len(ours) == STEPS
    assert ours[-1] < 0.8 * ours[0]
    assert ours == pytest.approx(wanted, rel=2e-3)
