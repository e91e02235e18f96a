"""The current device, and the stream on which torch launches there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from .device import is_described

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
