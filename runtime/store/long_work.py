"""A warning where work takes so long that its caller may wonder what is being done."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 10.0  # seconds


@contextmanager
def said_if_long(what: str, advice: str) -> Iterator[None]:
    """Warn once, while the work inside still runs, if it takes longer than `PATIENCE`.

    Args:
        what: is being done, for the message.
        advice: what would make it shorter.
    """

    def say() -> None:
        warnings.warn(
            f"rnnc has been {what} for {PATIENCE:g} s, and goes on. {advice}",
            RuntimeWarning,
            stacklevel=2,
        )

    timer = threading.Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
