"""`Budget`: the limits on time and decisions of one question."""

from __future__ import annotations

import time

from .outcome import LimitReached


class Budget:
    """The limits of one question, over all of its searches.

    Args:
        seconds: the limit on time, or None.
        nodes: the limit on decisions, or None.
    """

    def __init__(self, seconds: float | None = None, nodes: int | None = None) -> None:
        self.start = time.perf_counter()
        self.deadline = None if seconds is None else self.start + seconds
        self.allowed = nodes
        self.nodes = 0

    def check_time(self) -> None:
        """Raise `LimitReached` if the time is over."""
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise self.spent()

    def decide(self) -> None:
        """Count a decision; raise `LimitReached` if it exceeds the limit."""
        if self.allowed is not None and self.nodes >= self.allowed:
            raise self.spent()
        self.nodes += 1
        self.check_time()

    def spent(self) -> LimitReached:
        """The error of a spent budget."""
        return LimitReached(self.nodes, time.perf_counter() - self.start)
