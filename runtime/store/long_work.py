"""Warning about work that takes so long that its caller may wonder about it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..process.caller import calling_line, warn

PATIENCE = 10.0  # seconds


@contextmanager
def said_if_long(what: str, advice: str) -> Iterator[None]:
    """Warn once, while the work inside still runs, if it takes longer than `PATIENCE`."""
    line = calling_line()  # the timer's thread has no caller

    def say() -> None:
        warn(f"rnnc has been {what} for {PATIENCE:g} s, and goes on. {advice}", line)

    timer = threading.Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
