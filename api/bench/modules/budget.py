"""Division of the seconds of `rnnc bench --users` among its cases."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from .cases import Case

_COMPILED = 8  # cases that take as long as one under `torch.compile`, which cannot be cut short


def in_order(cases: Iterable[Case]) -> list[Case]:
    """The cases in the order in which they run: those under `torch.compile` last."""
    return sorted(cases, key=lambda case: case.compiled)


class Budget:
    """The time by which each case should end. Later ones get what a case does not use."""

    def __init__(self, cases: Sequence[Case], deadline: float) -> None:
        self._left, self._deadline = sum(map(_weight, cases)), deadline
        self._slowest = 0.0  # of the cases under torch.compile

    def until(self, case: Case) -> float | None:
        """When the next case should end; None if it should not be started."""
        now, share = time.monotonic(), _weight(case) / self._left
        self._left -= _weight(case)
        if now + (self._slowest if case.compiled else 0) > self._deadline:
            return None
        return now + (self._deadline - now) * share

    def took(self, case: Case, seconds: float) -> None:
        """Take note of what a case took: the next under `torch.compile` may take as long."""
        if case.compiled:
            self._slowest = max(self._slowest, seconds)


def _weight(case: Case) -> int:
    return _COMPILED if case.compiled else 1
