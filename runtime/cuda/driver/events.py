"""Events of the driver: order between streams."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress

from .capture import beside_captures
from .library import check, keeping

_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_here = threading.local()


class Event:
    """Event of the current device, which is destroyed with this object."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle = new_event()

    def __del__(self) -> None:
        # A process that ends has no driver left.
        with suppress(Exception), beside_captures():
            keeping.cuEventDestroy_v2(self.handle)


def new_event() -> int:
    """Make an event of the current device, for good; return its handle."""
    event = ctypes.c_void_p()
    with beside_captures():
        check(keeping.cuEventCreate(ctypes.byref(event), _DISABLE_TIMING))
    return int(event.value or 0)


def record_event(event: int, stream: int) -> None:
    """Let an event stand for all that a stream was given before."""
    check(keeping.cuEventRecord(event, stream))


def wait_event(stream: int, event: int) -> None:
    """Hold a stream back until an event has happened."""
    check(keeping.cuStreamWaitEvent(stream, event, 0))


def follow(stream: int, other: int, device: int) -> None:
    """Hold a stream of the current device back until another has done what it was given before."""
    # One per thread: between the two calls another thread may run. It ends with its thread.
    events: dict[int, Event] = _here.__dict__.setdefault("events", {})
    event = events.get(device)
    if event is None:
        event = events[device] = Event()
    record_event(event.handle, other)
    wait_event(stream, event.handle)
