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
# A contender that is far slower than the others gets fewer runs.
SECONDS_PER_PHASE = 1.5
# The GPU waits so many cycles while the host gets ahead of it; a slower clock waits longer.
_CYCLES_PER_MILLISECOND = 2_000_000
_MOST_AHEAD = 20.0  # ms; the host of an eager loop never gets ahead
_MOST_HOST = 1.2  # ms; rnnc's calls wait where the GPU is 2 ms behind (runtime/cuda/driver/room.py)
_MOST_QUEUED = 200  # runs; a stream holds about a thousand launches


@dataclass(frozen=True)
class Figure:
    """The times of one phase of a contender, in milliseconds.

    Attributes:
        median: the median of all runs.
        fastest: the fastest run.
        slowest: the slowest run.
        host: the median time until the call returned to Python.
        runs: the number of runs.
    """

    median: float
    fastest: float
    slowest: float
    host: float
    runs: int

    @classmethod
    def of(cls, runs: Sequence[tuple[float, float]]) -> Figure:
        """The figure of a list of runs."""
        device, host = zip(*runs, strict=True)
        median = statistics.median
        return cls(median(device), min(device), max(device), median(host), len(runs))


class WarmUp(NamedTuple):
    """The first runs of a call.

    Attributes:
        first: seconds of the first run, which may compile.
        host: milliseconds until the call of the last run returned.
    """

    first: float
    host: float

    @property
    def ahead(self) -> float:
        """Milliseconds that are enough for the host to queue such a run."""
        return min(0.2 + 1.5 * self.host, _MOST_AHEAD)

    def queued(self, calls: int) -> tuple[int, WarmUp]:
        """How many of the calls that such a run makes the host can queue, and the run of these."""
        count = max(1, min(calls, int(calls * _MOST_HOST / max(self.host, 1e-6))))
        return count, self._replace(host=self.host * count / calls)


def timed(run: Callable[[], object], device: str, ahead: float = 0) -> tuple[float, float]:
    """Time one run: milliseconds on the device, and until the call returned.

    Args:
        run: the function to time.
        device: "cpu" or "cuda".
        ahead: milliseconds for which the GPU is kept busy while the host queues the run; with 0 the
            GPU is idle at the start, and the time includes the host's.
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
    while True:
        if ahead:
            torch.cuda._sleep(int(ahead * _CYCLES_PER_MILLISECOND))  # type: ignore[no-untyped-call]
        start.record()
        begin = time.perf_counter()
        kept = run()
        host = 1e3 * (time.perf_counter() - begin)
        end.record()
        # A GPU that began before all was queued may have waited for the host.
        late = 0 < ahead < _MOST_AHEAD and start.query()  # type: ignore[no-untyped-call]
        end.synchronize()
        if not late:
            break
        ahead, kept = min(2 * ahead, _MOST_AHEAD), None
    # Freed after the clock has stopped, because freeing the graph of a long loop takes time.
    del kept
    return start.elapsed_time(end), host


def wall(run: Callable[[], object], device: str) -> float:
    """Milliseconds from an idle device until it is idle again."""
    wait(device)
    begin = time.perf_counter()
    kept = run()
    wait(device)
    taken = 1e3 * (time.perf_counter() - begin)
    del kept
    return taken


def own_time(run: Callable[[], object], count: int = 1) -> float:
    """Milliseconds per call. One thread has its own clock, which stands still while others run."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(count):
        run()
    return 1e3 * (clock() - start) / count


def median_time(run: Callable[[], object], device: str, repeat: int) -> float:
    """The median of some runs behind queued work, in milliseconds on the device."""
    ahead = warm_up(run, device, 3).ahead
    return statistics.median(timed(run, device, ahead)[0] for _ in range(repeat))


def queued_launches(run: Callable[[], object], seconds: float, rounds: int = 5) -> float:
    """Milliseconds on the GPU of one of many runs that are queued back to back; the median.

    Args:
        run: queues launches; the first two runs are not timed.
        seconds: about how long the runs take together.
        rounds: groups of runs, each timed as one.
    """
    run()
    once, host = timed(run, "cuda", _MOST_AHEAD)
    count = round(1e3 * seconds / (rounds * max(once, host)))
    count = max(1, min(count, _MOST_QUEUED // rounds))

    def group() -> None:
        for _ in range(count):
            run()

    took = [timed(group, "cuda", 0.2 + 1.5 * host * count)[0] / count for _ in range(rounds)]
    return statistics.median(took)


def warm_up(
    run: Callable[[], object],
    device: str,
    runs: int = WARM_UPS,
    seconds: float = SECONDS_PER_PHASE,
) -> WarmUp:
    """Run until compilation and caches are warm; a slow run gets fewer repetitions."""
    start = time.perf_counter()
    first = host = 0.0
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        host = 1e3 * (time.perf_counter() - begin)
        wait(device)
        first = first or time.perf_counter() - start
        if time.perf_counter() - start > seconds:
            break
    return WarmUp(first, host)


def peak_mib(run: Callable[[], object], device: str) -> float | None:
    """Peak memory of a run, above what was allocated before; None on the CPU."""
    if device != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def wait(device: str) -> None:
    """Wait until the device has finished its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def free(device: str) -> None:
    """Release unused memory."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
