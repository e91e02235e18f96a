"""Calls on a GPU that take the states of the call before: they are known, and replayed."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver import room
from rnnc.runtime.program import seen

B, HIDDEN = 3, 32


@pytest.fixture
def recorded(monkeypatch):
    """The calls that were recorded, since none like them was known."""
    monkeypatch.setattr(room, "is_here", lambda _: True)
    noted, record = [], seen.Replays._record

    def _record(self, *arguments):
        noted.append(self)
        return record(self, *arguments)

    monkeypatch.setattr(seen.Replays, "_record", _record)
    return noted


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    ("name", "way"), [("lstm", "call"), ("gru_reset_first", "call"), ("gru_reset_first", "step")]
)
def test_a_loop_is_recorded_once(name, way, grad, layers, simulated_gpu, recorded):
    cell = rnnc.cells.get(name)
    rnn = rnnc.RNN(cell, 8, HIDDEN, num_layers=layers, backend="simulated")
    run = rnn.step if way == "step" else rnn
    x = torch.randn(B, 8) if way == "step" else torch.randn(4, B, 8)
    states = None
    with torch.set_grad_enabled(grad):
        for turn in range(10):
            if turn == 5:
                recorded.clear()
            _, states = run(x, states)
            if grad:
                states = [state.detach() for state in states]
    assert not recorded
    assert all(state.is_contiguous() and state.stride(0) == B * HIDDEN for state in states)
