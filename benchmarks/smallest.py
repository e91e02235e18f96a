"""The smallest times of contenders in turns, since other programs can only lengthen a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from rnnc.bench.turns import in_turns


def seconds(run: Callable[[], object], count: int = 1) -> float:
    """Seconds per call. One thread has its own clock, which stands still while others run."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(count):
        run()
    return (clock() - start) / count


def smallest(
    runs: dict[str, Callable[[], object]], budget: float, rounds: int, window: float = 0.0
) -> dict[str, float]:
    """The smallest time of each contender, in milliseconds.

    Args:
        runs: the contenders, by name.
        budget: seconds for all of them together.
        rounds: the fewest; the first runs are not timed.
        window: seconds for which a measurement repeats short calls.
    """

    def clock(run: Callable[[], object], count: int) -> float:
        run()  # fills the caches, which the other contender used
        return seconds(run, count)

    counts = {}
    for name, run in runs.items():
        run()
        counts[name] = max(1, int(window / max(seconds(run), 1e-6)))
    clocks = {name: partial(clock, run, counts[name]) for name, run in runs.items()}
    until, found = time.monotonic() + budget, dict.fromkeys(runs, float("inf"))
    while rounds > 0 or time.monotonic() < until:
        rounds -= 1
        found = {name: min(found[name], *took) for name, took in in_turns(clocks, 1).items()}
    return {name: 1e3 * each for name, each in found.items()}
