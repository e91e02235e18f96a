"""Streams that wait for a number in device memory, or write one.

A wait holds back what follows it in its stream, and no other stream.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ...replay.recorder import refuse_recording
from .driver import driver_library

_GREATER_OR_EQUAL = 0  # CU_STREAM_WAIT_VALUE_GEQ
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the default stream
_DEFAULT = 0  # CU_STREAM_WRITE_VALUE_DEFAULT: after what the stream wrote before
_MPS_ENABLED = 133  # CU_DEVICE_ATTRIBUTE_MPS_ENABLED


def wait_until(stream: int, address: int, least: int) -> None:
    """Hold a stream back until a 32-bit number in device memory is large enough.

    Args:
        stream: the handle.
        address: of the number.
        least: what it must reach.
    """
    refuse_recording()
    wait, _, check = _operations()
    check(wait(stream, address, least, _GREATER_OR_EQUAL))


def write(stream: int, address: int, value: int) -> None:
    """Write a 32-bit number to device memory after all that a stream was given before.

    Args:
        stream: the handle.
        address: of the number.
        value: the number.
    """
    refuse_recording()
    _, put, check = _operations()
    check(put(stream, address, value, _DEFAULT))


def new_stream(urgent: bool) -> int:
    """A new stream of the current device, for good; gives its handle.

    Args:
        urgent: whether its blocks get a multiprocessor before those of other streams.
    """
    from cupy_backends.cuda.api import driver

    library, check = driver_library(), driver.check_status
    least, greatest, stream = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    check(library.cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest)))
    priority = greatest if urgent else least
    create = library.cuStreamCreateWithPriority
    check(create(ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING), priority))
    return int(stream.value or 0)


@cache
def shared_with_processes(device: int) -> bool:
    """Whether other processes may run on a device at the same time, by MPS.

    Args:
        device: the device's number.
    """
    found = ctypes.c_int()
    ask = driver_library().cuDeviceGetAttribute
    status = ask(ctypes.byref(found), ctypes.c_int(_MPS_ENABLED), ctypes.c_int(device))
    return status == 0 and bool(found.value)


@cache
def _operations() -> tuple[Any, Any, Any]:
    """The driver's wait and write, with their types, and the check of their status."""
    from cupy_backends.cuda.api import driver

    library = driver_library()
    found = library.cuStreamWaitValue32_v2, library.cuStreamWriteValue32_v2
    for function in found:
        function.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint)
    return (*found, driver.check_status)
