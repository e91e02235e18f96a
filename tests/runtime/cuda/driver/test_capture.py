"""Captures, with a recording driver: none stays open, whatever happens inside."""

from __future__ import annotations

import ctypes

import pytest
from rnnc.runtime.cuda.driver import capture
from rnnc.runtime.cuda.driver.capture import beside_captures, captured

RELAXED, THREAD_LOCAL = 2, 1


class Driver:
    """Holds the thread's mode, as the driver does."""

    mode = THREAD_LOCAL

    def cuThreadExchangeStreamCaptureMode(self, given):  # noqa: N802
        mode = ctypes.cast(given, ctypes.POINTER(ctypes.c_int)).contents
        mode.value, self.mode = self.mode, mode.value
        return 0


class Stream:
    """A stream of CuPy's, and the runtime's calls on it."""

    ptr = 7
    capturing = False

    def __init__(self, non_blocking):
        assert non_blocking
        self.made.append(self)


@pytest.fixture
def driver(monkeypatch):
    cuda = pytest.importorskip("cupy.cuda")
    found = Driver()
    found.streams, found.destroyed, found.interrupted_at = [], [], None
    monkeypatch.setattr(capture, "keeping", found)
    monkeypatch.setattr(cuda, "Stream", type("Made", (Stream,), {"made": found.streams}))

    def interrupt(place):
        """As Ctrl-C does: once the driver's call is over."""
        if found.interrupted_at == place:
            raise KeyboardInterrupt

    def begin(stream, mode):
        assert (stream, mode) == (7, RELAXED)
        found.streams[-1].capturing = True
        interrupt("begin")

    def end(stream):
        if not found.streams[-1].capturing:
            raise RuntimeError("illegal state")
        found.streams[-1].capturing = False
        interrupt("end")
        return 11

    monkeypatch.setattr(cuda.runtime, "streamBeginCapture", begin)
    monkeypatch.setattr(cuda.runtime, "streamEndCapture", end)
    monkeypatch.setattr(cuda.runtime, "graphDestroy", found.destroyed.append)
    return found


def test_a_capture_is_relaxed_and_leaves_the_mode_as_it_was(driver):
    seen = []
    graph = captured(lambda stream: seen.append((stream, driver.mode)))
    assert graph.handle == 11
    assert seen == [(7, RELAXED)]
    assert driver.mode == THREAD_LOCAL
    assert driver.destroyed == []
    del graph
    assert driver.destroyed == [11]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_error_or_interrupt_inside_ends_the_capture(driver, error):
    def launch(stream):
        raise error

    with pytest.raises(error):
        captured(launch)
    assert not driver.streams[-1].capturing
    assert driver.destroyed == [11]
    assert driver.mode == THREAD_LOCAL


@pytest.mark.parametrize("place", ["begin", "end"])
def test_an_interrupt_at_the_border_too(driver, place):
    driver.interrupted_at = place
    with pytest.raises(KeyboardInterrupt):
        captured(lambda stream: None)
    assert not driver.streams[-1].capturing
    assert driver.mode == THREAD_LOCAL


def test_modes_nest(driver):
    with beside_captures():
        with beside_captures():
            assert driver.mode == RELAXED
        assert driver.mode == RELAXED
    assert driver.mode == THREAD_LOCAL
