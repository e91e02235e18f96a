"""Events that order two streams, by a driver that takes notes."""

from __future__ import annotations

import threading

import pytest
from rnnc.runtime.cuda.driver import driver as functions
from rnnc.runtime.cuda.driver import streams

STREAM, OTHER = 7, 8


@pytest.fixture
def driver(monkeypatch, new_functions):
    """The functions that are entered, with what they are given."""
    log = []

    def function(kind, name):
        def entered(*given):
            if name == "cuEventCreate":
                given[0]._obj.value = 1 + sum(entry[0] == name for entry in log)
            if name != "cuThreadExchangeStreamCaptureMode":
                log.append((name, *given))
            return 0

        return entered

    monkeypatch.setattr(functions, "_function", function)
    monkeypatch.setattr(streams, "_here", threading.local())
    return log


def test_a_stream_follows_another_one_by_one_event_per_thread(driver):
    for _ in range(2):
        streams.follow(STREAM, OTHER, 0)
    assert driver[1:] == [("cuEventRecord", 1, OTHER), ("cuStreamWaitEvent", STREAM, 1, 0)] * 2
    streams.follow(STREAM, OTHER, 1)  # an event belongs to a device
    assert driver[-2:] == [("cuEventRecord", 2, OTHER), ("cuStreamWaitEvent", STREAM, 2, 0)]


def test_the_events_of_a_thread_end_with_it(driver):
    streams.follow(STREAM, OTHER, 0)
    for number in range(2, 5):
        thread = threading.Thread(target=streams.follow, args=(STREAM, OTHER, 0))
        thread.start()
        thread.join()
        assert driver[-1] == ("cuEventDestroy_v2", number)
    assert ("cuEventDestroy_v2", 1) not in driver  # of this thread
