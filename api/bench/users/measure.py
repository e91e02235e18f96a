"""Times the cases of users: both sides in turns, from an idle device and with a full queue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from ..inputs import DTYPES
from ..timing import free, timed, wait, warm_up
from .cases import UserCase
from .contenders import Run, ours, torchs

Time = TypeVar("Time")

_LEAST_RUNS = 3
_SECONDS_PER_SIDE = 1.0


@dataclass(frozen=True)
class Side:
    """The times of one side of a case, in milliseconds; medians.

    Attributes:
        wall: from an idle device until it is idle again, the host's time included.
        device: the GPU's alone, with a full queue; None on a CPU.
        host: until the call returned, with a full queue; None on a CPU.
        runs: the number of timed runs of each.
    """

    wall: float
    device: float | None
    host: float | None
    runs: int


@dataclass
class UserResult:
    """What a case took.

    Attributes:
        case: the case.
        ours: of rnnc.
        peers: of torch, by dtype.
        failure: why rnnc did not run, or the case was not started.
    """

    case: UserCase
    ours: Side | None = None
    peers: dict[str, Side] = field(default_factory=dict)
    failure: str = ""

    @property
    def peer(self) -> Side | None:
        """The faster of torch's, from an idle device."""
        return min(self.peers.values(), key=lambda side: side.wall, default=None)

    @property
    def times(self) -> float | None:
        """How many times as fast as torch rnnc is by wall-clock."""
        return self.peer.wall / self.ours.wall if self.ours and self.peer else None

    @property
    def device_times(self) -> float | None:
        """The same of the GPU's time; None on a CPU."""
        found = [side.device for side in self.peers.values() if side.device]
        return min(found) / self.ours.device if found and self.ours and self.ours.device else None


def measure_case(case: UserCase, device: str, repeat: int, deadline: float) -> UserResult:
    """Time both sides of a case in turns.

    torch's side runs in the dtype of the case; one of bfloat16 runs in float16 too, for which cuDNN
    has faster kernels.

    Args:
        case: the case.
        device: "cpu" or "cuda".
        repeat: timed runs of each side.
        deadline: the `time.monotonic()` after which a case is not started.
    """
    found = UserResult(case)
    if time.monotonic() > deadline:
        found.failure = "the time limit was reached"
        return found
    runs: dict[str, Run] = {}
    peers = (case.dtype, "float16") if case.dtype == "bfloat16" else (case.dtype,)
    for dtype in peers:
        runs[dtype] = torchs(case, device, DTYPES[dtype])
    try:
        runs["ours"] = ours(case, device)
    except Exception as error:
        # Any error is a line of the table, and the other cases go on.
        found.failure = " ".join(str(error).split())[:200]
    sides = _in_turns(runs, device, repeat)
    found.ours = sides.pop("ours", None)
    found.peers = sides
    runs.clear()
    if case.compiled:
        torch.compiler.reset()
    free(device)
    return found


def _in_turns(runs: dict[str, Run], device: str, repeat: int) -> dict[str, Side]:
    ahead = {name: warm_up(run, device, 4).ahead for name, run in runs.items()}
    walls = _times(runs, lambda name: _wall(runs[name], device), repeat)
    if device == "cpu":
        return {name: Side(_median(w), None, None, len(w)) for name, w in walls.items()}
    queued = _times(runs, lambda name: timed(runs[name], device, ahead[name]), repeat)
    return {
        name: Side(
            _median(walls[name]),
            _median([on_device for on_device, _ in pairs]),
            _median([host for _, host in pairs]),
            len(pairs),
        )
        for name, pairs in queued.items()
    }


def _times(
    names: Iterable[str], clock: Callable[[str], Time], repeat: int
) -> dict[str, list[Time]]:
    """What a clock gives for each name, in turns."""
    found: dict[str, list[Time]] = {name: [] for name in names}
    begun = time.monotonic()
    for turn in range(repeat):
        if turn >= _LEAST_RUNS and time.monotonic() - begun > _SECONDS_PER_SIDE * len(found):
            break
        for name, times in found.items():
            times.append(clock(name))
    return found


def _wall(run: Run, device: str) -> float:
    """Milliseconds from an idle device until it is idle again."""
    wait(device)
    begin = time.perf_counter()
    kept = run()
    wait(device)
    taken = 1e3 * (time.perf_counter() - begin)
    del kept
    return taken


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean.

    Args:
        values: positive numbers, at least one.

    Example:
        >>> from rnnc.bench.users.measure import geometric_mean
        >>> geometric_mean([1.0, 4.0])
        2.0
    """
    return statistics.geometric_mean(values)
