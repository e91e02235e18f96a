"""Room in the queues of streams, for launches that keep the interpreter's lock.

A launch into a full queue waits, which it must not do while it keeps the lock. The driver does not
tell how full a queue is, and other code fills it too. But a launch takes the host some time, so
what was issued within a short time fits. Marks in a stream tell what has run. If an older mark has
not been reached, the call waits for it without the lock. A long time between two calls counts as a
short one: a host that computes, or loads data, issues nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import lru_cache
from time import perf_counter_ns
from typing import NamedTuple

import torch

from ...process.turns import SHORT_TURNS
from .capture import beside_captures
from .driver import check, keeping, letting_go
from .streams import Event, is_here

# A queue takes 1,024 launches, and each takes the host 3 us or more, with the Python around it.
_LAUNCH = 3_000  # ns
_LONGEST_AHEAD = 2_000_000  # ns
# A wait lasts until half of it is left: after each wait a thread queues for the lock, a long time.
_AFTER_WAITING = 1_000_000  # ns
_BETWEEN_MARKS = 400_000  # ns
_LONGEST_GAP = 500_000  # ns, between two calls of `make_room`
_NOT_READY = 600  # CUDA_ERROR_NOT_READY


def make_room(device: int, stream: int) -> None:
    """Make sure that what is launched next does not wait; wait without the lock, if it would.

    The next launches may take the host 300 us, some 64 launches of Python. The stream is of the
    current device and does not capture.
    """
    room = _room(device, stream)
    now = perf_counter_ns()
    gap, room.seen = now - room.seen, now
    if gap > _LONGEST_GAP:
        room.idle += gap - _LONGEST_GAP
    if now - room.idle - room.marked >= _BETWEEN_MARKS:
        room.make(now - room.idle)


def count_launches(device: int, stream: int, launches: int) -> None:
    """Count launches that a graph has issued at once, as if each had taken the host its time."""
    _room(device, stream).idle -= launches * _LAUNCH


def stream_with_room(device: torch.device) -> int | None:
    """Return the stream to replay a call on, with room for its launches; None if there is none."""
    index = device.index
    if not is_here(index) or torch._C._cuda_isCurrentStreamCapturing():
        return None
    stream = torch._C._cuda_getCurrentRawStream(index)
    make_room(index, stream)
    return stream


class _Mark(NamedTuple):
    """Event in a stream, and when the host was there, in ns without `_Room.idle`."""

    event: Event
    when: int


class _Room:
    """Marks of a stream.

    Attributes:
        seen: when room was asked for last, in ns.
        idle: ns in which nothing was issued, less the ns that `count_launches` adds to the time.
        marked: when the last mark was made, in ns without `idle`.
    """

    def __init__(self, stream: int) -> None:
        self.seen, self.idle, self.marked = perf_counter_ns(), 0, 0
        self._stream, self._marks, self._spare = stream, deque[_Mark](), list[Event]()
        self._lock = threading.Lock()

    def make(self, now: int) -> None:
        """Wait for marks that are too old, and make a new one; `now` is in ns without `idle`."""
        with self._lock, beside_captures():
            if not self._has_run(now - _LONGEST_AHEAD):
                self._wait(now - _AFTER_WAITING)
            event = self._spare.pop() if self._spare else Event()
            status = keeping.cuEventRecord(event.handle, self._stream)
            if status:
                check(status)
            self.marked = now
            self._marks.append(_Mark(event, now))

    def _has_run(self, before: int) -> bool:
        """Return True if all has run that was issued before a time; forget what has."""
        while self._marks and self._marks[0].when <= before:
            status = keeping.cuEventQuery(self._marks[0].event.handle)
            if status == _NOT_READY:
                return False
            if status:
                check(status)
            self._spare.append(self._marks.popleft().event)
        return True

    def _wait(self, before: int) -> None:
        """Wait for what was issued before a time, without the interpreter's lock."""
        old = [mark.event for mark in self._marks if mark.when <= before]
        if not old:
            return
        begin = perf_counter_ns()
        with SHORT_TURNS.paused():
            check(letting_go.cuEventSynchronize(old[-1].handle))  # they happen in their order
        for _ in old:
            self._spare.append(self._marks.popleft().event)
        passed = perf_counter_ns() - begin
        self.seen += passed
        self.idle += passed


@lru_cache(maxsize=64)
def _room(device: int, stream: int) -> _Room:
    return _Room(stream)
