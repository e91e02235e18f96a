"""The smallest times of contenders in turns, since other programs can only lengthen a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch

from .turns import in_turns

_ROUNDS = 1_000_000  # more than any budget has


def seconds(run: Callable[[], object], count: int = 1) -> float:
    """Seconds per call. One thread has its own clock, which stands still while others run."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(count):
        run()
    return (clock() - start) / count


def smallest(
    runs: dict[str, Callable[[], object]], budget: float, window: float = 0.0
) -> dict[str, float]:
    """The smallest time of each contender, in milliseconds.

    Args:
        runs: the contenders, by name.
        budget: seconds for all of them together; the first runs are not timed.
        window: seconds for which a measurement repeats short calls.
    """

    def clock(run: Callable[[], object], count: int) -> float:
        run()  # fills the caches, which the other contender used
        return seconds(run, count)

    clocks = {}
    for name, run in runs.items():
        run()
        clocks[name] = partial(clock, run, max(1, int(window / max(seconds(run), 1e-6))))
    found = in_turns(clocks, _ROUNDS, time.monotonic() + budget)
    return {name: 1e3 * min(times) for name, times in found.items()}
