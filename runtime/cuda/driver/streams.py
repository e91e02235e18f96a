"""The current device, the stream on which torch launches there, and the order of streams."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import torch

from .capture import beside_captures
from .device import is_described
from .driver import check, keeping

_NOTHING = nullcontext()
_here = threading.local()


def current_stream(device: int) -> int:
    """Return the handle of torch's current stream of a device; 0 where there is no device."""
    return 0 if is_described(device) else torch._C._cuda_getCurrentRawStream(device)


def is_capturing(device: int) -> bool:
    """Return True if torch's current stream of the current device captures a graph."""
    return not is_described(device) and torch.cuda.is_current_stream_capturing()


@contextmanager
def _elsewhere(device: torch.device) -> Iterator[None]:
    """Make a device the current one of torch and of the driver."""
    from cupy.cuda import runtime

    with torch.cuda.device(device):
        runtime.setDevice(device.index)
        yield


def is_here(index: int) -> bool:
    """Return True if a device is the current one, of torch and of the driver."""
    return torch._C._cuda_getDevice() == index and getattr(_here, "device", None) == index


def on_device(device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which a device is the current one; none is entered if it is so already.

    NOTE: torch alone leaves a thread that has launched nothing yet, such as autograd's, without the
    driver's context.
    """
    if is_described(device.index):
        return _NOTHING
    index = torch.cuda.current_device()
    if index == device.index and getattr(_here, "device", None) == index:
        return _NOTHING
    # After a visit elsewhere the driver's context is not known.
    _here.device = index if index == device.index else None
    return _elsewhere(device)


_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING


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
