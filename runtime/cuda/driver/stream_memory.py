"""Streams that write numbers to device memory and wait for others.

A wait holds back what follows it in its stream, and no other stream. The streams stay for good, and
the current one will wait for them.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ...program.ops import Addressed, Name, Running
from .device import is_described
from .driver import NON_BLOCKING, check, driver_library, keeping, stream_priorities

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


class HandOver(Addressed):
    """Writing of numbers after a stream's work so far, then a wait until others are as large."""

    __slots__ = ("waits", "writes")

    def __init__(self, stream: int, writes: Sequence[Number], waits: Sequence[Number]) -> None:
        numbers = [*((_WRITE, *each) for each in writes), *((_WAIT, *each) for each in waits)]
        words = array("Q", [word for number in numbers for word in (*number, _FLAGS, 0, 0)])
        super().__init__(words, range(_ADDRESS, len(words), _WORDS), stream)
        self.writes, self.waits = len(writes), len(waits)

    def text(self, name: Name) -> str:
        """Return it in words."""
        found = []
        for number, (word, memory) in enumerate(self.named(name).items()):
            what = "write" if number < self.writes else "wait for"
            found.append(f"{what} {self._numbers[word + 1]} at {memory}")
        return "; ".join(found)

    def __call__(self, running: Running) -> None:
        """Give the stream its operations."""
        words = self.filled(running)
        count = self.writes + self.waits
        status = keeping.cuStreamBatchMemOp_v2(self.lane, count, words.buffer_info()[0], 0)
        if status:
            check(status)


def new_stream() -> int:
    """Make a stream of the current device for good, whose blocks go first; return its handle."""
    stream, (_, greatest) = ctypes.c_void_p(), stream_priorities()
    create = driver_library().cuStreamCreateWithPriority
    check(create(ctypes.byref(stream), ctypes.c_uint(NON_BLOCKING), greatest))
    return int(stream.value or 0)


def shared_with_processes(device: int) -> bool:
    """Return True if other processes may run on a device at the same time, by MPS."""
    if is_described(device):
        return False
    found = ctypes.c_int()
    ask = driver_library().cuDeviceGetAttribute
    status = ask(ctypes.byref(found), ctypes.c_int(_MPS_ENABLED), ctypes.c_int(device))
    return status == 0 and bool(found.value)
