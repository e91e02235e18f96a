"""Streams that write numbers to device memory and wait for others.

A wait holds back what follows it in its stream, and no other stream. The streams stay for good, and
the current one will wait for them.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ...program.entries import Running
from ...program.recorder import Recorder, recording
from .driver import driver_library
from .library import check, keeping

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the default stream
_MPS_ENABLED = 133  # CU_DEVICE_ATTRIBUTE_MPS_ENABLED
# `CUstreamBatchMemOpParams` of cuda.h has six words: the operation, the address, the value, flags.
# CU_STREAM_MEM_OP_WAIT_VALUE_32 goes on when the number is as large as the value (the flag
# CU_STREAM_WAIT_VALUE_GEQ), CU_STREAM_MEM_OP_WRITE_VALUE_32 writes after what the stream wrote
# before (CU_STREAM_WRITE_VALUE_DEFAULT).
_WORDS, _ADDRESS = 6, 1
_WAIT, _WRITE = 1, 2
_FLAGS = 0


class Number(NamedTuple):
    """32-bit number in device memory; `value` is what it becomes, or what it must reach."""

    address: int
    value: int


def hand_over(stream: int, writes: Sequence[Number], waits: Sequence[Number]) -> None:
    """Write numbers after all that a stream was given before, then hold it back for others.

    It goes on when each of those is as large as its value.
    """
    numbers = [*((_WRITE, *number) for number in writes), *((_WAIT, *number) for number in waits)]
    words = array("Q", [word for number in numbers for word in (*number, _FLAGS, 0, 0)])
    _issue(stream, words, len(numbers))
    recorder = recording()
    if recorder is not None:
        again = _Again(recorder, stream, words, [address for _, address, _ in numbers])
        recorder.add(again, again.places, beside=True)


def _issue(stream: int, words: array[int], count: int) -> None:
    """Give a stream its operations."""
    status = keeping("cuStreamBatchMemOp_v2")(stream, count, words.buffer_info()[0], 0)
    if status:
        check(status)


class _Again:
    """Handover of a recorded call. One replay uses the streams at a time, and so these words."""

    __slots__ = ("_count", "_stream", "_words", "places")

    def __init__(
        self, recorder: Recorder, stream: int, words: array[int], addresses: Sequence[int]
    ) -> None:
        self._stream, self._words, self._count = stream, words, len(addresses)
        self.places = [recorder.place(address) for address in addresses]

    def __call__(self, running: Running) -> None:
        addresses, words, at = running.addresses, self._words, _ADDRESS
        for slot, offset in self.places:
            words[at] = addresses[slot] + offset
            at += _WORDS
        _issue(self._stream, words, self._count)


def new_stream() -> int:
    """Make a stream of the current device, for good; return its handle.

    Its blocks get a multiprocessor before those of other streams.
    """
    library, stream = driver_library(), ctypes.c_void_p()
    least, greatest = ctypes.c_int(), ctypes.c_int()
    check(library.cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest)))
    create = library.cuStreamCreateWithPriority
    check(create(ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING), greatest))
    return int(stream.value or 0)


def shared_with_processes(device: int) -> bool:
    """Return True if other processes may run on a device at the same time, by MPS."""
    found = ctypes.c_int()
    ask = driver_library().cuDeviceGetAttribute
    status = ask(ctypes.byref(found), ctypes.c_int(_MPS_ENABLED), ctypes.c_int(device))
    return status == 0 and bool(found.value)
