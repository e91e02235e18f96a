"""A limit of seconds for work that cannot be asked to stop, such as another library's compiler."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch


class TooLong(BaseException):
    """The seconds are over. No `except Exception` on the way stops it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TooLong` after some seconds, in the main thread of a system that has timers.

    A backward runs in this thread meanwhile, where it can be stopped; torch's default is a thread
    per GPU, for which the main thread would wait.

    Raises:
        TooLong: the seconds are over.
    """
    main = threading.current_thread() is threading.main_thread()
    if math.isinf(seconds) or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        with torch.autograd.set_multithreading_enabled(False):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
