"""Room in the queues of streams, by a driver whose events happen when a test says so."""

from __future__ import annotations

import ctypes

import pytest
from rnnc.runtime.cuda.driver import driver as functions
from rnnc.runtime.cuda.driver import room

MICROSECOND = 1000
NOT_READY = 600


class Driver:
    """A stream that takes notes; its work is done when a test says so.

    Attributes:
        now: the host's time in ns.
        done: how many events have happened, in their order.
        log: what was entered, and whether it let the interpreter's lock go.
    """

    def __init__(self):
        self.now, self.done, self.log = 10**12, 0, []
        self.made, self.marks = 0, 0
        self._last = {}  # the number of the mark that each event stands for

    def function(self, kind, name):
        def entered(*given):
            self.log.append((name, kind is ctypes.CDLL))
            return getattr(self, name)(*given) or 0

        return entered

    def cuThreadExchangeStreamCaptureMode(self, mode):  # noqa: N802
        pass

    def cuEventCreate(self, event, flags):  # noqa: N802
        self.made += 1
        event._obj.value = self.made

    def cuEventDestroy_v2(self, event):  # noqa: N802
        pass

    def cuEventRecord(self, event, stream):  # noqa: N802
        assert stream == 7
        self._last[event] = self.marks
        self.marks += 1

    def cuEventQuery(self, event):  # noqa: N802
        return 0 if self._last[event] < self.done else NOT_READY

    def cuEventSynchronize(self, event):  # noqa: N802
        """The device takes 3 ms for what it waits for."""
        if self._last[event] >= self.done:
            self.now += 3_000 * MICROSECOND
            self.done = 1 + self._last[event]

    @property
    def waits(self):
        """How often it was waited."""
        return sum(name == "cuEventSynchronize" for name, _ in self.log)

    @property
    def ahead(self):
        """How many marks were made that have not happened."""
        return self.marks - self.done


@pytest.fixture
def driver(monkeypatch, new_functions):
    found = Driver()
    room._room.cache_clear()
    monkeypatch.setattr(functions, "_function", found.function)
    monkeypatch.setattr(room, "perf_counter_ns", lambda: found.now)
    yield found
    room._room.cache_clear()


def call(driver, microseconds=100, finished=False):
    """A call that takes the host so long; the device has done all, or nothing more."""
    room.make_room(0, 7)
    driver.now += microseconds * MICROSECOND
    if finished:
        driver.done += driver.ahead


def test_nothing_is_waited_for_while_the_device_keeps_up(driver):
    for _ in range(100):
        call(driver, finished=True)
    assert driver.waits == 0
    assert driver.made <= 7  # events, which are used again
    assert not any(lets_go for _, lets_go in driver.log)


def test_few_calls_are_marked(driver):
    for _ in range(100):
        call(driver, 10)
    assert driver.marks == 3


def test_who_is_far_ahead_waits_without_the_lock(driver):
    for _ in range(1000):
        call(driver)
        # What was issued in so much of the host's own time fits into a queue.
        assert driver.ahead <= 6
    assert driver.waits > 10
    assert {name for name, lets_go in driver.log if lets_go} == {"cuEventSynchronize"}
    # Half of it at once: each wait may cost the lock.
    assert driver.waits < 1000 * 100 / 1000 + 1


def test_launches_of_a_graph_count_as_if_each_took_its_time(driver):
    """The host takes 20 us for what fills as much of the queue as 60 launches."""
    for _ in range(1000):
        call(driver, 20)
        room.count_launches(0, 7, 60)
        assert driver.ahead <= 6
    assert driver.waits > 10


def test_waiting_is_no_time_in_which_something_was_issued(driver):
    """Or each call after a wait would wait for all before it."""
    while not driver.waits:
        call(driver)
    for _ in range(5):
        driver.log.clear()
        calls = 0
        while not driver.waits:
            call(driver)
            calls += 1
            assert calls < 40
        assert calls >= 4


def test_a_host_that_does_something_else_issues_nothing(driver):
    """A long time between two calls counts as half a millisecond."""
    for _ in range(4):
        call(driver, 50_000)
    assert driver.waits == 0
    for _ in range(2):
        call(driver, 50_000)
    assert driver.waits == 1


def test_streams_are_apart(driver):
    call(driver)
    room.make_room(1, 7)
    assert driver.marks == 2


def test_an_error_of_the_device_is_raised(driver, monkeypatch):
    def check(status):
        assert status == 700
        raise RuntimeError("an illegal address")

    for _ in range(4):
        call(driver, 1_000)
    assert driver.waits == 0
    monkeypatch.setattr(room, "check", check)
    monkeypatch.setattr(driver, "cuEventQuery", lambda event: 700)
    with pytest.raises(RuntimeError, match="illegal address"):
        call(driver)
