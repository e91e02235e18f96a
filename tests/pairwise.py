"""Random cases of which each pair of values of two properties comes at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

_TRIES = 40  # random cases, of which the one with the most new pairs is taken

Case = dict[str, Any]
Pair = tuple[str, Any, str, Any]


def covering(count: int, wanted: Iterable[Pair], draw: Callable[[], Case]) -> list[Case]:
    """Return cases, of which the first ones have the most pairs that none before them has.

    Args:
        count: how many.
        wanted: the pairs that count.
        draw: draws a case at random.
    """
    missing, found = set(wanted), list[Case]()
    while len(found) < count:
        tried = [draw() for _ in range(_TRIES)]
        best = max(tried, key=lambda case: len(missing & pairs(case)))
        missing -= pairs(best)
        found.append(best)
    return found


def pairs(case: Case) -> set[Pair]:
    """Return the pairs of values of a case.

    Args:
        case: the value of each property.
    """
    return {(one, case[one], other, case[other]) for one, other in combinations(case, 2)}
