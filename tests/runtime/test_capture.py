"""Captures with a driver that only takes notes: whatever happens inside, none stays open."""

from __future__ import annotations

import ctypes

import pytest
from rnnc.runtime import capture
from rnnc.runtime.capture import beside_captures, captured

RELAXED, THREAD_LOCAL = 2, 1


class Driver:
    """Holds the thread's mode, as the driver does."""

    mode = THREAD_LOCAL

    def cuThreadExchangeStreamCaptureMode(self, given):  # noqa: N802
        mode = ctypes.cast(given, ctypes.POINTER(ctypes.c_int)).contents
        mode.value, self.mode = self.mode, mode.value
        return 0


class Stream:
    """A stream of CuPy's."""

    ptr = 7
    interrupted_at = None

    def __init__(self, non_blocking):
        assert non_blocking
        self.capturing = False
        Stream.last = self

    def begin_capture(self, mode):
        assert mode == RELAXED
        self.capturing = True
        self.interrupt("begin")

    def end_capture(self):
        assert self.capturing
        self.capturing = False
        self.interrupt("end")
        return "graph"

    def interrupt(self, place):
        """As Ctrl-C does: once the driver's call is over."""
        if self.interrupted_at == place:
            raise KeyboardInterrupt


@pytest.fixture
def driver(monkeypatch):
    cuda = pytest.importorskip("cupy.cuda")
    found = Driver()
    monkeypatch.setattr(capture, "driver_library", lambda: found)
    monkeypatch.setattr(cuda, "Stream", Stream)

    def end(stream):
        if not Stream.last.capturing:
            raise RuntimeError("illegal state")
        Stream.last.capturing = False
        return 11

    found.destroyed = []
    monkeypatch.setattr(cuda.runtime, "streamEndCapture", end)
    monkeypatch.setattr(cuda.runtime, "graphDestroy", found.destroyed.append)
    return found


def test_a_capture_is_relaxed_and_leaves_the_mode_as_it_was(driver):
    seen = []
    assert captured(lambda stream: seen.append((stream, driver.mode))) == "graph"
    assert seen == [(7, RELAXED)]
    assert driver.mode == THREAD_LOCAL
    assert driver.destroyed == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_error_or_interrupt_inside_ends_the_capture(driver, error):
    def launch(stream):
        raise error

    with pytest.raises(error):
        captured(launch)
    assert not Stream.last.capturing
    assert driver.destroyed == [11]
    assert driver.mode == THREAD_LOCAL


@pytest.mark.parametrize("place", ["begin", "end"])
def test_an_interrupt_at_the_border_too(driver, monkeypatch, place):
    monkeypatch.setattr(Stream, "interrupted_at", place)
    with pytest.raises(KeyboardInterrupt):
        captured(lambda stream: None)
    assert not Stream.last.capturing
    assert driver.mode == THREAD_LOCAL


def test_modes_nest(driver):
    with beside_captures():
        with beside_captures():
            assert driver.mode == RELAXED
        assert driver.mode == RELAXED
    assert driver.mode == THREAD_LOCAL
