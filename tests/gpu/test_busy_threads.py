"""Calls beside Python threads that compute: how long they take, and what the threads get done."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver import library, room

HIDDEN, BATCH, STEPS = 512, 32, 256
TURNS, CALLS = 5, 3


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


def torch_s(layers):
    return torch.nn.LSTM(HIDDEN, HIDDEN, num_layers=layers).to("cuda", torch.bfloat16)


def drawn(steps=STEPS):
    return torch.randn(steps, BATCH, HIDDEN, device="cuda", dtype=torch.bfloat16)


def train(module, x):
    module.zero_grad()
    module(x)[0].sum().backward()


def median_of_calls(module, inputs):
    """Seconds of a forward and its backward."""
    times = []
    for x in inputs:
        begin = time.perf_counter()
        train(module, x)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


@pytest.mark.parametrize("replayed", [True, False], ids=("replayed", "of another length each"))
@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_call_takes_at_most_half_of_nn_s_time(threads, layers, replayed):
    modules = ours(layers), torch_s(layers)
    lengths = [STEPS if replayed else STEPS - number for number in range(TURNS * CALLS)]
    inputs = [drawn(steps) for steps in lengths]
    for module in modules:
        for _ in range(4):
            train(module, inputs[0])
        # What a length compiles or loads.
        for x in inputs:
            train(module, x)
    torch.cuda.synchronize()
    found = [], []
    if not replayed:
        inputs = [drawn(steps - len(lengths)) for steps in lengths]
    with Counting(threads).running():
        for turn in range(TURNS):
            some = inputs[turn * CALLS : (turn + 1) * CALLS]
            for module, times in zip(modules, found, strict=True):
                times.append(median_of_calls(module, some))
    own, other = map(statistics.median, found)
    print(f"{threads} threads, {layers} layers: {own * 1e3:.1f} ms, nn.LSTM {other * 1e3:.1f} ms")
    assert own <= other / 2


def counted_beside(module, x, threads, seconds=2.0):
    """How often threads go round in a second beside a loop of calls, and calls in a second."""
    counting, calls = Counting(threads), 0
    with torch.no_grad(), counting.running():
        module(x)
        torch.cuda.synchronize()
        begin, before = time.perf_counter(), counting.count
        while time.perf_counter() - begin < seconds:
            module(x)
            calls += 1
        passed = time.perf_counter() - begin
        found = (counting.count - before) / passed
    torch.cuda.synchronize()
    return found, calls / passed


@pytest.mark.parametrize("threads", [1, 4])
def test_a_full_queue_is_waited_for_without_the_lock(threads):
    """Calls that keep the device busy for longer than the host: threads count as beside nn.LSTM."""
    x = drawn(16 * STEPS)
    rnn, other = ours(1), torch_s(1)
    for module in (rnn, other):
        for _ in range(4):
            with torch.no_grad():
                module(x)
    torch.cuda.synchronize()
    own, nn = (counted_beside(module, x, threads) for module in (rnn, other))
    print(
        f"{threads} threads count {own[0]:.0f} beside {own[1]:.0f} calls, {nn[0]:.0f} {nn[1]:.0f}"
    )
    assert own[0] >= 0.9 * nn[0]


def test_a_loop_of_calls_waits_for_events_and_not_in_launches(monkeypatch):
    """Without busy threads: what waits lets go, and no launch takes as long as the device."""
    waits, launches = [], []
    function = library._function

    def timed(kind, name):
        run = function(kind, name)

        def entered(*given):
            begin = time.perf_counter()
            status = run(*given)
            passed = time.perf_counter() - begin
            if name == "cuEventSynchronize":
                waits.append(passed)
            if name == "cuLaunchKernelEx":
                launches.append(passed)
            return status

        return entered

    caches = library.keeping, library.letting_go, room._room
    for each in caches:
        each.cache_clear()
    monkeypatch.setattr(library, "_function", timed)
    rnnc.free_memory()  # replays hold the functions
    rnn, x = ours(1), drawn(4 * STEPS)
    with torch.no_grad():
        for _ in range(3000):
            rnn(x)
    torch.cuda.synchronize()
    for each in caches:
        each.cache_clear()
    rnnc.free_memory()
    assert waits
    # A full queue would hold each launch for as long as a call takes, 0.3 ms and more.
    assert statistics.median(launches) < 1e-4
    assert sum(waits) > sum(launches)
