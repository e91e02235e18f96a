"""The interval in which threads take turns: short while calls run, and later what it was."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time

import pytest
import rnnc
import torch
from rnnc.runtime.process import turns
from rnnc.runtime.process.turns import short_turns_of_backward

USUAL, SHORT = 0.004, pytest.approx(1e-4)


@pytest.fixture(autouse=True)
def usual(monkeypatch):
    """An interval that nobody else has set, and short turns that begin and end in this test."""
    before = sys.getswitchinterval()
    monkeypatch.setattr(turns, "SHORT_TURNS", turns._ShortTurns())
    sys.setswitchinterval(USUAL)
    yield pytest.approx(USUAL)
    end_threads(monkeypatch)
    sys.setswitchinterval(before)


def end_threads(monkeypatch):
    """Wait for the threads of this test, which would end the short turns of the next one."""
    monkeypatch.setattr(turns, "_PERIOD", 0.001)
    monkeypatch.setattr(turns, "_LAST_LOOKS", 1)
    for thread in threading.enumerate():
        if thread.name == "rnnc turns":
            thread.join(30)
            assert not thread.is_alive()


def becomes(wanted, within=30.0):
    """Whether the interval becomes this one; it stays another for so long if not."""
    end = time.monotonic() + within
    while sys.getswitchinterval() != wanted and time.monotonic() < end:
        time.sleep(0.01)
    return sys.getswitchinterval() == wanted


def test_turns_are_short_inside_and_for_a_while_afterwards(usual, monkeypatch):
    monkeypatch.setattr(turns, "_PERIOD", 0.3)
    with turns.SHORT_TURNS:
        with turns.SHORT_TURNS:
            assert sys.getswitchinterval() == SHORT
        time.sleep(3.5 * turns._PERIOD)
        assert sys.getswitchinterval() == SHORT
    time.sleep(0.7 * turns._PERIOD)  # a look comes within, and not a whole period of quiet
    assert sys.getswitchinterval() == SHORT
    assert becomes(usual)


def test_a_call_on_a_cpu_leaves_turns_as_usual(usual):
    wx, R = torch.randn(2, 3, 1, 4, 1, requires_grad=True), torch.randn(1, 1, 4, 4)
    seen = []
    rnnc.scan("elman", wx, R)[0][0].sum().backward()  # a first call may build a kernel
    assert becomes(usual)
    (h,), _ = rnnc.scan("elman", wx, R)
    wx.register_hook(lambda _: seen.append(sys.getswitchinterval()))
    h.sum().backward()
    assert [*seen, sys.getswitchinterval()] == [usual] * 2


def test_turns_stay_short_from_call_to_call(usual, monkeypatch):
    monkeypatch.setattr(turns, "_PERIOD", 0.5)
    for _ in range(20):
        with turns.SHORT_TURNS:
            pass
        time.sleep(0.1)
        assert sys.getswitchinterval() == SHORT
    assert becomes(usual)
    with turns.SHORT_TURNS:
        assert sys.getswitchinterval() == SHORT


def test_an_error_ends_them(usual):
    with pytest.raises(KeyboardInterrupt), turns.SHORT_TURNS:
        raise KeyboardInterrupt
    assert becomes(usual)


def test_the_last_of_several_threads_ends_them(usual):
    inside, leave = threading.Event(), threading.Event()

    def call():
        with turns.SHORT_TURNS:
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=call)
    with turns.SHORT_TURNS:
        thread.start()
        assert inside.wait(30)
    time.sleep(3 * turns._PERIOD)
    assert sys.getswitchinterval() == SHORT
    leave.set()
    thread.join()
    assert becomes(usual)


@pytest.mark.parametrize("inside", [True, False])
def test_what_a_caller_sets_meanwhile_stays(inside):
    with turns.SHORT_TURNS:
        if inside:
            sys.setswitchinterval(0.002)
    if not inside:
        sys.setswitchinterval(0.002)
    time.sleep(3 * turns._PERIOD)
    assert sys.getswitchinterval() == pytest.approx(0.002)
    with turns.SHORT_TURNS:
        assert sys.getswitchinterval() == SHORT
    assert becomes(pytest.approx(0.002))


def test_a_shorter_interval_stays():
    sys.setswitchinterval(2e-5)
    with turns.SHORT_TURNS:
        assert sys.getswitchinterval() == pytest.approx(2e-5)
    time.sleep(3 * turns._PERIOD)
    assert sys.getswitchinterval() == pytest.approx(2e-5)


def test_who_waits_inside_leaves_turns_as_usual(usual):
    with turns.SHORT_TURNS:
        with turns.SHORT_TURNS.paused():
            assert sys.getswitchinterval() == usual
        assert sys.getswitchinterval() == SHORT
    with turns.SHORT_TURNS.paused():
        assert sys.getswitchinterval() == usual
    assert sys.getswitchinterval() == usual


def test_a_call_that_begins_while_they_end_runs_in_short_turns(usual, monkeypatch):
    end, begun = turns._ShortTurns._end, threading.Event()

    def end_beside_a_call(self):
        if not begun.is_set():
            self.__enter__()  # it finds turns short, which end right after
            begun.set()
        end(self)

    with turns.SHORT_TURNS:
        pass
    monkeypatch.setattr(turns._ShortTurns, "_end", end_beside_a_call)
    assert begun.wait(30)
    assert becomes(SHORT)
    turns.SHORT_TURNS.__exit__()
    assert becomes(usual)


def test_the_thread_that_ends_them_ends_too_and_comes_again(usual, monkeypatch):
    monkeypatch.setattr(turns, "_PERIOD", 0.01)
    monkeypatch.setattr(turns, "_LAST_LOOKS", 3)
    for _ in range(2):
        before = set(threading.enumerate())
        with turns.SHORT_TURNS:
            (thread,) = set(threading.enumerate()) - before
            assert thread.daemon
        thread.join(30)
        assert not thread.is_alive()
        assert sys.getswitchinterval() == usual


def test_turns_stay_usual_where_no_thread_can_end_them(usual, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with turns.SHORT_TURNS:
        assert sys.getswitchinterval() == usual


def intervals_of_a_fork(results):
    results.put(sys.getswitchinterval())
    with turns.SHORT_TURNS:
        results.put(sys.getswitchinterval())
    results.put(becomes(pytest.approx(USUAL)))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_process_begins_with_the_usual_turns(monkeypatch):
    monkeypatch.undo()  # the process's own context knows of forks
    sys.setswitchinterval(USUAL)
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    with turns.SHORT_TURNS:
        process = fork.Process(target=intervals_of_a_fork, args=(results,))
        process.start()
        process.join(60)
    assert [results.get() for _ in range(3)] == [pytest.approx(USUAL), SHORT, True]


class Node(torch.autograd.Function):
    """A node whose backward makes turns short, and may fail."""

    @staticmethod
    def forward(ctx, x, seen, error):
        ctx.seen, ctx.error = seen, error
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        short_turns_of_backward()
        ctx.seen.append(sys.getswitchinterval())
        if ctx.error:
            raise ctx.error
        return gradient * 2, None, None


class Later(torch.autograd.Function):
    """A node whose backward comes after that of `Node`, and takes a while."""

    @staticmethod
    def forward(ctx, x, seen):
        ctx.seen = seen
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(10 * turns._PERIOD)
        ctx.seen.append(sys.getswitchinterval())
        return gradient, None


def test_they_last_until_the_backward_pass_ends(usual):
    seen, x = [], torch.randn(3, requires_grad=True)
    Node.apply(Later.apply(x, seen), seen, None).sum().backward()
    assert seen == [SHORT, SHORT]
    assert torch.equal(x.grad, torch.full((3,), 2.0))
    assert becomes(usual)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_a_backward_pass_that_fails_ends_them(error, usual):
    seen, x = [], torch.randn(3, requires_grad=True)
    with pytest.raises(type(error)):
        Node.apply(x, seen, error).sum().backward()
    assert seen == [SHORT]
    assert becomes(usual)
