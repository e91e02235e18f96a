"""Weights and settings that change between calls: no call remembers what it read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import rnnc
import torch

_path = Path(__file__).parents[1] / "module_changes.py"
_spec = importlib.util.spec_from_file_location("module_changes", _path)
changes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(changes)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("change", changes.CHANGES, ids=lambda change: change.__name__)
def test_the_next_call_sees_a_change(change, bidirectional):
    options = {"num_layers": 2, "bidirectional": bidirectional, "device": "cuda"}
    rnn = rnnc.RNN(rnnc.cells.lstm, 5, 64, precision="ieee", **options)
    for name, found, wanted in changes.compared(change, rnn):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, msg=name)


def test_the_precision_of_a_call_is_that_of_the_flag_when_it_begins():
    rnn = rnnc.RNN(rnnc.cells.lstm, 64, 64, num_layers=2, device="cuda")
    x = torch.randn(20, 8, 64, device="cuda")
    flags = torch.backends.cudnn.rnn
    before = flags.fp32_precision

    def call(precision, later):
        flags.fp32_precision = precision
        y, _ = rnn(x)
        flags.fp32_precision = later
        return [y.detach(), *torch.autograd.grad(y.square().sum(), list(rnn.parameters()))]

    try:
        ieee, tf32 = call("ieee", "ieee"), call("tf32", "tf32")
        for found, wanted in ((call("ieee", "tf32"), ieee), (call("tf32", "ieee"), tf32)):
            assert all(map(torch.equal, found, wanted))
        assert not any(map(torch.equal, ieee, tf32))
    finally:
        flags.fp32_precision = before
