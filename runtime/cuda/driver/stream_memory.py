"""Streams that wait for a number in device memory, or write one.

A wait holds back what follows it in its stream, and no other stream. The streams are those of
`new_stream`, which the current one will wait for.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ...replay.entries import Place, Running
from ...replay.recorder import recording
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
    wait, _ = _operations()
    _run(wait, stream, address, (least, _GREATER_OR_EQUAL))


def write(stream: int, address: int, value: int) -> None:
    """Write a 32-bit number to device memory after all that a stream was given before.

    Args:
        stream: the handle.
        address: of the number.
        value: the number.
    """
    _, put = _operations()
    _run(put, stream, address, (value, _DEFAULT))


def _run(operation: Any, stream: int, address: int, how: tuple[int, int]) -> None:
    """Run an operation on a number, and record it.

    Args:
        operation: of the driver.
        stream: the handle.
        address: of the number.
        how: the number that it is compared with or becomes, and the operation's flags.
    """
    _check(operation(stream, address, *how))
    recorder = recording()
    if recorder is not None:
        place = recorder.place(address)
        recorder.add(_Again(operation, stream, place, how), [place], beside=True)


class _Again:
    """An operation of a recorded call on a number.

    Args:
        operation: as in `_run`.
        stream: likewise.
        place: of the number.
        how: as in `_run`.
    """

    __slots__ = ("_how", "_operation", "_place", "_stream")

    def __init__(self, operation: Any, stream: int, place: Place, how: tuple[int, int]) -> None:
        self._operation, self._stream, self._place, self._how = operation, stream, place, how

    def __call__(self, running: Running) -> None:
        """Run it."""
        slot, offset = self._place
        value, flags = self._how
        status = self._operation(self._stream, running.addresses[slot] + offset, value, flags)
        if status:
            _check(status)


def _check(status: int) -> None:
    """Raise the driver's error, if there is one."""
    from cupy_backends.cuda.api import driver

    driver.check_status(status)


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
def _operations() -> tuple[Any, Any]:
    """The driver's wait and write, with their types."""
    library = driver_library()
    found = library.cuStreamWaitValue32_v2, library.cuStreamWriteValue32_v2
    for function in found:
        function.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint)
    return found
