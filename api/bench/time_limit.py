"""A limit of seconds for work that cannot be asked to stop, such as another library's compiler."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch


class _TooLong(BaseException):
    """The seconds are over. No `except Exception` on the way stops it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop after some seconds, in the main thread of a system that has timers.

    A backward runs in this thread meanwhile, where it can be stopped; torch's default is a thread
    per GPU, for which the main thread would wait.

    Raises:
        TimeoutError: what ran was not compiled and warm by then.
    """
    main = threading.current_thread() is threading.main_thread()
    if math.isinf(seconds) or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        with torch.autograd.set_multithreading_enabled(False):
            yield
    except _TooLong:
        raise TimeoutError(f"it was not compiled within {seconds:.0f} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
