"""The memory of a training step with lengths and resets: one number more per unit and step."""

from __future__ import annotations

import pytest
import rnnc
import torch
from torch.profiler import ProfilerActivity, profile

T, B, N, D = 64, 16, 2, 64
STATE = T * B * N * D * 4  # bytes of a state at all steps


def peak(step):
    """The memory that a call needs at most, in states at all steps."""
    step()  # what is made on first use, is made
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    now = most = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        now += change.nbytes()
        most = max(most, now)
    return most / STATE


def check(run):
    """Compare a training step without masks and with each of them."""
    without = peak(run)
    assert without > 4  # the gates at least
    reset, lengths = torch.rand(B, T) < 0.1, torch.randint(1, T + 1, (B,))
    for masks in ({"reset": reset}, {"lengths": lengths}, {"reset": reset, "lengths": lengths}):
        more = peak(lambda masks=masks: run(**masks)) - without
        assert more < 1.1, (list(masks), more)


def scans(cell, backend, **options):
    wx = torch.randn(B, T, N, D, len(cell.input_gates)).requires_grad_()
    R = (torch.randn(len(cell.dense_pairs), N, D, D) / D**0.5).requires_grad_()

    def run(**masks):
        over_time, _ = rnnc.scan(cell, wx, R, backend=backend, **options, **masks)
        torch.autograd.grad(over_time[0], (wx, R), torch.ones_like(over_time[0]))

    return run


@pytest.mark.parametrize("cell", [rnnc.cells.lstm, rnnc.cells.slstm], ids=lambda c: c.name)
def test_a_scan(cell):
    check(scans(cell, "cpu"))


@pytest.mark.parametrize("kind", ["block", "cluster", "grid"])
def test_a_scan_on_a_gpu(kind, simulated_gpu):
    check(scans(rnnc.cells.lstm, "simulated", variant=kind))


def test_a_module():
    rnn = rnnc.RNN(rnnc.cells.gru, 32, N * D, num_layers=2, bidirectional=True)
    x = torch.randn(T, B, 32)

    def run(reset=None, **masks):
        y, _ = rnn(x, reset=None if reset is None else reset.t(), **masks)
        torch.autograd.grad(y, list(rnn.parameters()), torch.ones_like(y))

    check(run)
