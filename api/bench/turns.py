"""The loop of all measurements: contenders in turns, so that load affects all of them."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name")
Time = TypeVar("Time")

LEAST_RUNS = 3


def in_turns(
    clocks: Mapping[Name, Callable[[], Time]],
    repeat: int,
    until: float = math.inf,
    *,
    shuffled: bool = False,
    enough: Callable[[Sequence[Time]], bool] = lambda _: False,
    failed: Callable[[Name, Exception], None] | None = None,
) -> dict[Name, list[Time]]:
    """Return what clocks give, in turns: each of them once per round.

    Args:
        clocks: each times one run of a contender.
        repeat: rounds at most.
        until: the `time.monotonic()` after which there are `LEAST_RUNS` rounds only.
        shuffled: whether each round has an order of its own, as `orders` gives it.
        enough: whether a contender with these times needs no further run.
        failed: hears an error of a clock, which has no further turn; by default it is raised.
    """
    found: dict[Name, list[Time]] = {name: [] for name in clocks}
    out: set[Name] = set()
    rounds = orders(list(clocks)) if shuffled else itertools.repeat(list(clocks))
    for number, order in enumerate(itertools.islice(rounds, repeat)):
        if number >= LEAST_RUNS and time.monotonic() > until:
            break
        for name in order:
            if name in out or (number >= LEAST_RUNS and enough(found[name])):
                continue
            try:
                found[name].append(clocks[name]())
            except Exception as error:
                if failed is None:
                    raise
                out.add(name)
                failed(name, error)
    return found


def orders(names: Sequence[Name]) -> Iterator[list[Name]]:
    """The order of each round: one drawn at random, the same in each process, then its reverse.

    A run right behind one of other code finds the caches of the processor cold, which takes 0.1 ms
    of the host, and a run behind one of the same code does not. So neither of two contenders may
    run behind the other more often than the other behind it.

    Example:
        >>> from itertools import islice
        >>> from rnnc.bench.turns import orders
        >>> first, second = islice(orders(["a", "b", "c"]), 2)
        >>> first == second[::-1]
        True
    """
    draw = random.Random(0)
    while True:
        order = draw.sample(names, len(names))
        yield order
        yield order[::-1]
