"""Turns of Python's threads while calls on a GPU run on the host.

Torch releases the interpreter's lock in each operation, in each allocation and with each tensor
that is freed. A thread that computes then keeps the lock for `sys.getswitchinterval()`, 5 ms, some
forty times per call, and often in the lines of a training step around the call. So while a call or
its backward pass runs, and for 5 to 10 ms afterwards, threads take turns of 100 us. The interval
belongs to the process: the caller's is set again once no call has come for that long. The work of a
first call also runs in such turns: an import beside two threads that compute takes a minute
otherwise.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SHORT = 100e-6  # seconds; a change of threads takes some 10 us
_PERIOD = 0.005  # seconds, between two looks at whether a call came
_LAST_LOOKS = 1000  # at which no call has come, after which the thread that looks ends


class _ShortTurns:
    """Context of short turns, for several threads at once. A thread of its own ends them later."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of a signal may make a call inside
        # Contexts that run, and whether one began or ended since the last look. Both change without
        # the lock, which takes longer than all else of a context that finds turns short.
        self._inside: deque[None] = deque()
        self._came = False
        # What the caller set, and what this class set in its place: None while turns are as usual.
        self._usual = sys.getswitchinterval()
        self._short: float | None = None
        self._ends = False  # whether a thread runs that ends the short turns

    def __enter__(self) -> None:
        self._came = True  # first: the thread that looks asks again once it has ended the turns
        if sys.getswitchinterval() != self._short or not self._ends:
            with self._lock:
                self._shorten()
        self._inside.append(None)  # last: an interrupt before leaves nothing behind

    def __exit__(self, *_: object) -> None:
        if self._inside:  # a forked process began with none
            self._inside.pop()
        self._came = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let threads take turns as usual, in a context in which a call waits for the device."""
        with self._lock:
            self._end()
        try:
            yield
        finally:
            with self._lock:
                if self._inside:
                    self._shorten()

    def after_fork(self) -> None:
        """Let the threads of a forked process, which has one, take turns as usual."""
        self._lock, self._ends = threading.RLock(), False
        self._inside.clear()
        self._end()

    def _shorten(self) -> None:
        """Let threads take short turns, unless the caller's are shorter."""
        found = sys.getswitchinterval()
        if found != self._short:
            self._usual = found
            _set(min(found, _SHORT))
            self._short = sys.getswitchinterval()
        if not self._ends:
            try:
                threading.Thread(target=self._look, name="rnnc turns", daemon=True).start()
            except RuntimeError:  # the interpreter ends, or the system has no more threads
                self._end()
            else:
                self._ends = True

    def _end(self) -> None:
        """Let threads take turns as usual, unless someone else has set other ones meanwhile."""
        if self._short is not None and sys.getswitchinterval() == self._short:
            _set(self._usual)
        self._short = None

    def _look(self) -> None:
        """End the short turns whenever no call has come for a while."""
        looks = 0
        while looks < _LAST_LOOKS:
            time.sleep(_PERIOD)
            with self._lock:
                looks = 0 if self._is_busy() else looks + 1
                if looks:
                    self._end()
                    if self._is_busy():  # a call has just begun, which found turns short
                        self._shorten()
                        looks = 0
                self._ends = looks < _LAST_LOOKS

    def _is_busy(self) -> bool:
        """Return True if a context runs, or one began or ended since this was asked last."""
        came, self._came = self._came, False
        return came or len(self._inside) > 0


def _set(seconds: float) -> None:
    # Python cuts off what is less than a microsecond.
    sys.setswitchinterval(seconds + 0.5e-6)


# A context in which threads take short turns, on any device.
SHORT_TURNS = _ShortTurns()
if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=SHORT_TURNS.after_fork)


class _OfBackward:
    """Short turns for as long as a backward pass keeps this object, also if it fails."""

    def __init__(self) -> None:
        SHORT_TURNS.__enter__()

    def __call__(self) -> None:
        """Do nothing: the pass lets this object go afterwards."""

    def __del__(self) -> None:
        SHORT_TURNS.__exit__()


def short_turns_of_backward() -> None:
    """Let threads take short turns until the backward pass ends that runs now.

    The pass releases the lock for each gradient that Python gave, and for each saved tensor.
    """
    import torch

    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(_OfBackward())
