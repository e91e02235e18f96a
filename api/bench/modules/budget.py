"""Division of the seconds of `rnnc bench --users` among its cases."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from .cases import Case

_COMPILED_SECONDS = 25.0  # of both sides under `torch.compile`, of which most cannot be cut short
_COMPILED_SHARE = 0.4  # of all seconds, at most


def in_order(cases: Iterable[Case]) -> list[Case]:
    """The cases in the order in which they run: those under `torch.compile` last."""
    return sorted(cases, key=lambda case: case.compiled)


class Budget:
    """The time by which each case should end. Later ones get what a case does not use."""

    def __init__(self, cases: Sequence[Case], deadline: float) -> None:
        self._compiled = sum(case.compiled for case in cases)
        self._plain = len(cases) - self._compiled
        self._deadline = deadline
        self._begun = time.monotonic()
        wanted = self._compiled * _COMPILED_SECONDS
        self._reserve = min(wanted, _COMPILED_SHARE * (deadline - self._begun))
        self._slowest = 0.0  # of the cases under torch.compile

    def until(self, case: Case) -> float | None:
        """When the next case should end; None if it should not be started."""
        now = time.monotonic()
        if case.compiled:
            left, end = self._compiled, self._deadline
            self._compiled -= 1
        else:
            left, end = self._plain, self._deadline - self._reserve
            self._plain -= 1
        if now + (self._slowest if case.compiled else 0) > end:
            return None
        return now + (end - now) / left

    def took(self, case: Case, seconds: float) -> None:
        """Take note of what a case took: the next under `torch.compile` may take as long."""
        if case.compiled:
            self._slowest = max(self._slowest, seconds)
