"""Weights and settings that change between calls: no call remembers what it read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import rnnc
import torch

_path = Path(__file__).parents[2] / "module_changes.py"
_spec = importlib.util.spec_from_file_location("module_changes", _path)
changes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(changes)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("change", changes.CHANGES, ids=lambda change: change.__name__)
def test_the_next_call_sees_a_change(change, bidirectional):
    options = {"num_layers": 2, "bidirectional": bidirectional}
    rnn = rnnc.RNN(rnnc.cells.lstm, 5, 8, **options)
    for name, found, wanted in changes.compared(change, rnn):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, msg=name)
