"""How long a question may take."""

from __future__ import annotations

import time

from .outcome import LimitReached


class Budget:
    """What a caller allows: a deadline and a number of nodes, over all the searches of one call.

    Args:
        seconds: time allowed; None for any.
        nodes: decisions allowed; None for any.
    """

    def __init__(self, seconds: float | None = None, nodes: int | None = None) -> None:
        self.start = time.perf_counter()
        self.deadline = None if seconds is None else self.start + seconds
        self.allowed = nodes
        self.nodes = 0

    def check_time(self) -> None:
        """Raise `LimitReached` if the time is up."""
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise self.spent()

    def decide(self) -> None:
        """Count a decision; raise `LimitReached` if it is one too many."""
        if self.allowed is not None and self.nodes >= self.allowed:
            raise self.spent()
        self.nodes += 1
        self.check_time()

    def spent(self) -> LimitReached:
        """The error that says that the budget is spent."""
        return LimitReached(self.nodes, time.perf_counter() - self.start)
