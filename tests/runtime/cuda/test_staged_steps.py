"""Single steps of cells with stages, which run as sequences of one, also in a stepper's graph."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.targets.registry import TARGETS

B = 3


@pytest.fixture
def rnn(emulated_blocks, staged_cells) -> rnnc.RNN:
    torch.manual_seed(0)
    return rnnc.RNN(staged_cells.TWINS["norm_lstm"][0], 5, 8, num_layers=2, backend="simulated")


def test_a_step_that_comes_again_is_found(rnn):
    xs, calls, states = torch.randn(4, B, 5), [], None
    find = rnn._known_calls.find_call
    rnn._known_calls.find_call = lambda *call: calls.append(find(*call)) or calls[-1]
    with torch.no_grad():
        for x in xs:
            y, states = rnn.step(x, states)
    assert [found is not None for found in calls] == [False, False, True, True]
    wanted, last = rnn(xs)
    torch.testing.assert_close(y, wanted[-1])
    torch.testing.assert_close(states, last)
    with torch.autocast("cpu", torch.bfloat16):
        assert find("step", rnn, xs[:1], states) is None


def test_gradients_of_a_step(rnn):
    x, first = torch.randn(B, 5).requires_grad_(), [torch.randn(2, B, 8) for _ in range(2)]
    leaves = [x, *rnn.parameters()]
    wanted = torch.autograd.grad(rnn(x[None], first)[0].square().sum(), leaves)
    for _ in range(3):
        y, _ = rnn.step(x, first)
        found = torch.autograd.grad(y.square().sum(), leaves)
        for slope, expected in zip(found, wanted, strict=True):
            assert torch.equal(slope, expected)


def test_what_a_stepper_captures(rnn, monkeypatch):
    """Here a replay makes the call again: it writes where the stepper reads."""
    target = type(TARGETS["simulated"])
    monkeypatch.setattr(target, "capture", staticmethod(lambda device, runs: runs))
    stepper, states = rnn.stepper(B), None
    assert "a CUDA graph" in repr(stepper)
    for x in torch.randn(4, B, 5):
        y, states = rnn.step(x, states)
        torch.testing.assert_close(stepper(x), y)  # tests/gpu compares bits
        torch.testing.assert_close(stepper.states, states)
    with torch.no_grad():
        rnn.weight_hh_l0.mul_(0.5)
    stepper.reset()
    torch.testing.assert_close(stepper(x), rnn.step(x)[0])
