"""Operators of all layers that come again: recorded once, and replayed by a compiled module."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver import room
from rnnc.runtime.grad.operators import call as operators
from rnnc.runtime.program import seen
from rnnc.runtime.program.seen import Seen
from rnnc.runtime.targets.registry import TARGETS


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}], ids=str)
def test_a_compiled_module_launches_the_same_kernels_again(simulated_gpu, monkeypatch, options):
    monkeypatch.setattr(room, "is_here", lambda _: True)
    monkeypatch.setitem(TARGETS, "cpu", TARGETS["simulated"])
    monkeypatch.setattr(operators, "_calls", Seen())
    torch._dynamo.reset()
    rnn = rnnc.RNN(rnnc.cells.lstm, 32, 64, layers="sequential", **options)
    compiled = torch.compile(rnn, backend="inductor")
    found, computed, record = [], [], seen.Replays._record
    for name in ("_forward", "_backward"):
        compute = getattr(operators, name)
        monkeypatch.setattr(
            operators, name, lambda *a, run=compute, name=name: (computed.append(name), run(*a))[1]
        )

    def noted(self, *arguments):
        results = record(self, *arguments)
        found.extend(self._known.values())
        return results

    monkeypatch.setattr(seen.Replays, "_record", noted)
    runs = []
    for _ in range(5):
        simulated_gpu.clear()
        y = compiled(torch.randn(4, 2, 32))[0]
        y.backward(torch.ones(y.shape))
        assert all(parameter.grad is not None for parameter in rnn.parameters())
        rnn.zero_grad()
        runs.append(list(simulated_gpu))
    assert runs[0]
    assert all(run == runs[0] for run in runs)
    assert [each.program is not None for each in found] == [True, True]  # forward, backward
    assert computed == ["_forward", "_backward"] * 2
    torch._dynamo.reset()
