"""The clock of `rnnc bench`: CUDA events on a GPU, the host's clock on the CPU."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

WARM_UPS = 5
# A contender that is slower than others by orders of magnitude gets fewer runs in as much time.
SECONDS_A_PHASE = 1.5
# Of a GPU that waits for the host to get ahead of it; a slower clock waits longer.
_CYCLES_A_MILLISECOND = 2_000_000
_MOST_AHEAD = 5.0  # ms: a loop's host is never ahead


@dataclass(frozen=True)
class Figure:
    """What one phase of a contender took, in milliseconds.

    Attributes:
        median: of all runs.
        fastest: the fastest run.
        slowest: the slowest run.
        host: the median until the call returned to Python.
        runs: how many.
    """

    median: float
    fastest: float
    slowest: float
    host: float
    runs: int

    @classmethod
    def of(cls, runs: Sequence[tuple[float, float]]) -> Figure:
        """The figure of some runs.

        Args:
            runs: milliseconds on the device and on the host, of each; at least one.

        Example:
            >>> from rnnc.bench.timing import Figure
            >>> Figure.of([(3.0, 0.5), (1.0, 0.5), (2.0, 0.5)]).median
            2.0
        """
        device, host = zip(*runs, strict=True)
        median = statistics.median
        return cls(median(device), min(device), max(device), median(host), len(runs))


class WarmUp(NamedTuple):
    """What the first runs told.

    Attributes:
        first: seconds of the first run, which compiles what is not compiled yet.
        host: milliseconds until the last one's call returned.
    """

    first: float
    host: float

    @property
    def ahead(self) -> float:
        """Milliseconds in which the host surely queues such a run."""
        return min(0.2 + 1.5 * self.host, _MOST_AHEAD)


def timed(run: Callable[[], object], device: str, ahead: float = 0) -> tuple[float, float]:
    """Milliseconds of a run: on the device, and until the call returned.

    Args:
        run: what is timed.
        device: "cpu" or "cuda".
        ahead: milliseconds that the GPU is kept busy for while the host queues the run; 0 for an
            idle GPU at its start, where a slow host shows.

    Example:
        >>> from rnnc.bench.timing import timed
        >>> device, host = timed(lambda: sum(range(1000)), "cpu")
        >>> device == host > 0
        True
    """
    if device == "cpu":
        begin = time.perf_counter()
        run()
        taken = 1e3 * (time.perf_counter() - begin)
        return taken, taken
    start, end = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    if ahead:
        torch.cuda._sleep(int(ahead * _CYCLES_A_MILLISECOND))  # type: ignore[no-untyped-call]
    start.record()
    begin = time.perf_counter()
    kept = run()
    host = 1e3 * (time.perf_counter() - begin)
    end.record()
    end.synchronize()
    # Freed after the clock has stopped: a long loop's graph takes the host a while.
    del kept
    return start.elapsed_time(end), host


def warm_up(run: Callable[[], object], device: str, runs: int = WARM_UPS) -> WarmUp:
    """Run until nothing is done for the first time any more; a slow run is soon warm.

    Args:
        run: what will be timed.
        device: "cpu" or "cuda".
        runs: at most.
    """
    start = time.perf_counter()
    first = host = 0.0
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        host = 1e3 * (time.perf_counter() - begin)
        wait(device)
        first = first or time.perf_counter() - start
        if time.perf_counter() - start > SECONDS_A_PHASE:
            break
    return WarmUp(first, host)


def peak_mib(run: Callable[[], object], device: str) -> float | None:
    """The most memory that a run holds beside what is there before it; None on the CPU.

    Args:
        run: what allocates.
        device: "cpu" or "cuda".
    """
    if device != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def wait(device: str) -> None:
    """Wait until the device has done all that it was told.

    Args:
        device: "cpu" or "cuda".
    """
    if device == "cuda":
        torch.cuda.synchronize()


def free(device: str) -> None:
    """Give memory back that nothing holds any more.

    Args:
        device: "cpu" or "cuda".
    """
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
