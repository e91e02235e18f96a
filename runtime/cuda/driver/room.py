"""Room in the queues of streams: a launch into a full one waits, and must not while it keeps the
interpreter's lock.

Nobody tells how full a queue is, and not only this package fills it. But a launch takes the host a
while, so what was issued within a short time fits. Marks in a stream tell what of it has run; one
that is older and has not come up is waited for without the lock.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from functools import lru_cache
from time import perf_counter_ns
from typing import NamedTuple

from ...turns import usual_turns
from .capture import beside_captures
from .events import new_event
from .library import check, keeping, letting_go

# A queue takes 1,024 launches, and each takes the host 1.5 us or more: torch's too.
_LONGEST_AHEAD = 800_000  # ns
# Half of it is left before launches go on: who waits queues for the lock, and that takes long.
_AFTER_WAITING = 400_000  # ns
_BETWEEN_MARKS = 400_000  # ns
_NOT_READY = 600  # CUDA_ERROR_NOT_READY


def make_room(device: int, stream: int) -> None:
    """Make sure that what is launched next does not wait; wait without the lock, if it would.

    What is launched next may take the host 300 us, some 64 launches of Python.

    Args:
        device: the device's number, the current one.
        stream: the handle of a stream that does not capture.
    """
    room = _room(device, stream)
    if perf_counter_ns() - room.last >= _BETWEEN_MARKS:
        room.make()


class _Mark(NamedTuple):
    """A place in a stream.

    Attributes:
        event: happens there.
        when: the host was there, in ns of its own time.
    """

    event: int
    when: int


class _Room:
    """The marks of a stream.

    Args:
        stream: the handle.

    Attributes:
        last: when the last mark was made, in ns; or since when there is certainly room.
    """

    def __init__(self, stream: int) -> None:
        self.last = 0
        self._stream, self._marks, self._spare = stream, deque[_Mark](), list[int]()
        self._waited = 0  # ns, in which nothing was issued
        self._lock = threading.Lock()

    def make(self) -> None:
        """Wait for marks that are too old, and make a new one."""
        with self._lock, beside_captures():
            now = perf_counter_ns() - self._waited
            if not self._has_run(now - _LONGEST_AHEAD):
                self._wait(now - _AFTER_WAITING)
            event = self._spare.pop() if self._spare else new_event()
            status = keeping("cuEventRecord")(event, self._stream)
            if status:
                check(status)
            self.last = perf_counter_ns()
            self._marks.append(_Mark(event, self.last - self._waited))

    def _has_run(self, before: int) -> bool:
        """Return whether all has run that was issued before a time; forget what has."""
        while self._marks and self._marks[0].when <= before:
            status = keeping("cuEventQuery")(self._marks[0].event)
            if status == _NOT_READY:
                return False
            if status:
                check(status)
            self._spare.append(self._marks.popleft().event)
        return True

    def _wait(self, before: int) -> None:
        """Wait for what was issued before a time, without the interpreter's lock."""
        begin = perf_counter_ns()
        with usual_turns():
            while self._marks and self._marks[0].when <= before:
                check(letting_go("cuEventSynchronize")(self._marks[0].event))
                self._spare.append(self._marks.popleft().event)
        self._waited += perf_counter_ns() - begin

    def __del__(self) -> None:
        # A process that ends has no driver left.
        with suppress(Exception), beside_captures():
            for event in (*self._spare, *(mark.event for mark in self._marks)):
                keeping("cuEventDestroy_v2")(event)


@lru_cache(maxsize=64)
def _room(device: int, stream: int) -> _Room:
    """Return the marks of a stream of a device."""
    return _Room(stream)
