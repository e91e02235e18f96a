"""Calls beside Python threads that compute, and loops of calls that fill the queue."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver import driver, room
from rnnc.runtime.process.turns import SHORT_TURNS

HIDDEN, BATCH, STEPS = 512, 32, 256


class Counting:
    """Threads that add up numbers in Python.

    Attributes:
        count: how often they have gone round.
    """

    def __init__(self, threads: int) -> None:
        self.count, self._over = 0, False
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def _run(self) -> None:
        while not self._over:
            total = 0
            for number in range(1000):
                total += number
            self.count += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over = True
            for thread in self._threads:
                thread.join()


def ours(layers):
    rnn = rnnc.RNN(rnnc.cells.lstm, HIDDEN, HIDDEN, num_layers=layers)
    return rnn.to("cuda", torch.bfloat16)


def drawn(steps=STEPS):
    return torch.randn(steps, BATCH, HIDDEN, device="cuda", dtype=torch.bfloat16)


def trained(rnn, x):
    rnn.zero_grad()
    y = rnn(x)[0]
    y.sum().backward()
    return {"y": y.detach()} | {name: p.grad for name, p in rnn.named_parameters()}


def wait_until(holds):
    end = time.monotonic() + 30
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("threads", [1, 4])
def test_calls_have_the_same_bits_and_leave_turns_as_they_were(threads, layers):
    wait_until(lambda: SHORT_TURNS._short is None)  # after the calls of other tests
    usual = sys.getswitchinterval()
    rnn, lengths = ours(layers), [STEPS] * 6 + [STEPS - 1, STEPS - 2]
    inputs = [drawn(steps) for steps in lengths]
    wanted = [trained(rnn, x) for x in inputs]
    with Counting(threads).running():
        found = [trained(rnn, x) for x in inputs]
    for own, other in zip(found, wanted, strict=True):
        assert all(torch.equal(own[name], other[name]) for name in other)
    wait_until(lambda: sys.getswitchinterval() == usual)
    assert sys.getswitchinterval() == usual


def test_a_loop_of_calls_waits_for_events(monkeypatch, new_functions):
    """What waits lets the lock go: a launch into a full queue would keep it."""
    waits, function = [], driver._function

    def noted(kind, name):
        run = function(kind, name)

        def entered(*given):
            if name == "cuEventSynchronize":
                waits.append(kind)
            return run(*given)

        return entered

    room._room.cache_clear()
    monkeypatch.setattr(driver, "_function", noted)
    rnnc.free_memory()  # replays hold the functions
    rnn, x = ours(1), drawn(4 * STEPS)
    with torch.no_grad():
        for _ in range(3000):
            rnn(x)
    torch.cuda.synchronize()
    room._room.cache_clear()
    rnnc.free_memory()
    assert set(waits) == {ctypes.CDLL}
