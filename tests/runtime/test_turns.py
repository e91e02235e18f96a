"""The interval in which threads take turns: short while a call runs, and then what it was."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from rnnc.runtime.turns import short_turns, short_turns_of_backward, usual_turns

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
USUAL, SHORT = 0.004, pytest.approx(1e-4)


@pytest.fixture(autouse=True)
def usual():
    """An interval that nobody else has set."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL)
    yield pytest.approx(USUAL)
    sys.setswitchinterval(before)


def test_turns_are_short_inside_alone(usual):
    with short_turns(CUDA):
        assert sys.getswitchinterval() == SHORT
        with short_turns(CUDA):
            assert sys.getswitchinterval() == SHORT
        assert sys.getswitchinterval() == SHORT
    assert sys.getswitchinterval() == usual
    with short_turns(CPU):
        assert sys.getswitchinterval() == usual


def test_an_error_ends_them(usual):
    with pytest.raises(KeyboardInterrupt), short_turns(CUDA):
        raise KeyboardInterrupt
    assert sys.getswitchinterval() == usual


def test_the_last_of_several_threads_ends_them(usual):
    inside, leave = threading.Event(), threading.Event()

    def call():
        with short_turns(CUDA):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=call)
    with short_turns(CUDA):
        thread.start()
        assert inside.wait(10)
    assert sys.getswitchinterval() == SHORT
    leave.set()
    thread.join()
    assert sys.getswitchinterval() == usual


def test_what_a_caller_sets_meanwhile_stays():
    with short_turns(CUDA):
        sys.setswitchinterval(0.002)
    assert sys.getswitchinterval() == pytest.approx(0.002)


def test_a_shorter_interval_stays():
    sys.setswitchinterval(2e-5)
    with short_turns(CUDA):
        assert sys.getswitchinterval() == pytest.approx(2e-5)


def test_who_waits_inside_leaves_turns_as_usual(usual):
    with short_turns(CUDA):
        with usual_turns():
            assert sys.getswitchinterval() == usual
        assert sys.getswitchinterval() == SHORT
    assert sys.getswitchinterval() == usual
    with usual_turns():
        assert sys.getswitchinterval() == usual


class Node(torch.autograd.Function):
    """A node whose backward makes turns short, and may fail."""

    @staticmethod
    def forward(ctx, x, seen, error):
        ctx.seen, ctx.error = seen, error
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        short_turns_of_backward(CUDA)
        ctx.seen.append(sys.getswitchinterval())
        if ctx.error:
            raise ctx.error
        return gradient * 2, None, None


class Later(torch.autograd.Function):
    """A node whose backward comes after that of `Node`."""

    @staticmethod
    def forward(ctx, x, seen):
        ctx.seen = seen
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.seen.append(sys.getswitchinterval())
        return gradient, None


def test_they_last_until_the_backward_pass_ends(usual):
    seen, x = [], torch.randn(3, requires_grad=True)
    Node.apply(Later.apply(x, seen), seen, None).sum().backward()
    assert seen == [SHORT, SHORT]
    assert sys.getswitchinterval() == usual
    assert torch.equal(x.grad, torch.full((3,), 2.0))


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_a_backward_pass_that_fails_ends_them(error, usual):
    seen, x = [], torch.randn(3, requires_grad=True)
    with pytest.raises(type(error)):
        Node.apply(x, seen, error).sum().backward()
    assert seen == [SHORT]
    assert sys.getswitchinterval() == usual
