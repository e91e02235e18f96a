"""Times the cases of users: both sides in turns, from an idle device and with a full queue."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self, TypeVar

import torch

from ..inputs import DTYPES
from ..timing import free, timed, wait, warm_up
from .cases import UserCase
from .contenders import Run, ours, stepper, torchs

Time = TypeVar("Time")

_LEAST_RUNS = 3
_MOST_SECONDS = 8.0  # of a case; after them it has the fewest runs


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
        stepper: of `rnn.stepper`, where it can do the case.
        failure: why rnnc did not run, or the case was not started.
    """

    case: UserCase
    ours: Side | None = None
    peers: dict[str, Side] = field(default_factory=dict)
    stepper: Side | None = None
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
    def stepper_times(self) -> float | None:
        """The same of `rnn.stepper`."""
        return self.peer.wall / self.stepper.wall if self.stepper and self.peer else None

    @property
    def device_times(self) -> float | None:
        """The same of the GPU's time; None on a CPU."""
        found = [side.device for side in self.peers.values() if side.device]
        return min(found) / self.ours.device if found and self.ours and self.ours.device else None

    def record(self) -> dict[str, Any]:
        """All of it, as JSON writes it."""
        derived = {name: getattr(self, name) for name in ("times", "device_times", "stepper_times")}
        return {"name": str(self.case), **asdict(self), **derived}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Self:
        """What `record` gave.

        Args:
            record: read from a file.
        """

        def side(found: dict[str, Any] | None) -> Side | None:
            return Side(**found) if found else None

        return cls(
            UserCase(**record["case"]),
            side(record["ours"]),
            {dtype: Side(**found) for dtype, found in record["peers"].items()},
            side(record.get("stepper")),
            record["failure"],
        )


def measure_case(case: UserCase, device: str, repeat: int, until: float) -> UserResult:
    """Time both sides of a case in turns.

    torch's side runs in the dtype of the case; one of bfloat16 runs in float16 too, for which cuDNN
    has faster kernels.

    Args:
        case: the case.
        device: "cpu" or "cuda".
        repeat: timed runs of each side.
        until: the `time.monotonic()` by which it should end: a long case has fewer runs, but at
            least three of each side.
    """
    found, until = UserResult(case), min(until, time.monotonic() + _MOST_SECONDS)
    runs: dict[str, Run] = {}
    peers = (case.dtype, "float16") if case.dtype == "bfloat16" else (case.dtype,)
    for dtype in peers:
        runs[dtype] = torchs(case, device, DTYPES[dtype])
    try:
        runs["ours"] = ours(case, device)
        steps = stepper(case, device)
        if steps is not None:
            runs["stepper"] = steps
    except Exception as error:
        # Any error is a line of the table, and the other cases go on.
        found.failure = in_a_line(error)
    ahead: dict[str, float] = {}
    for name, run in runs.items():
        try:
            ahead[name] = warm_up(run, device, 4).ahead
        except Exception as error:  # likewise
            found.failure = in_a_line(error)
    sides = in_turns({name: runs[name] for name in ahead}, device, ahead, repeat, until)
    found.ours, found.stepper = sides.pop("ours", None), sides.pop("stepper", None)
    found.peers = sides
    runs.clear()
    if case.compiled:
        torch.compiler.reset()
    free(device)
    return found


def in_a_line(error: Exception) -> str:
    """What an error says, in a line of a table.

    Args:
        error: any.
    """
    return " ".join(str(error).split())[:200]


def in_turns(
    runs: dict[str, Run],
    device: str,
    ahead: dict[str, float],
    repeat: int,
    until: float,
    shuffled: bool = False,
) -> dict[str, Side]:
    """Time contenders in turns, first from an idle device and then with a full queue.

    Args:
        runs: of each, by name.
        device: "cpu" or "cuda".
        ahead: milliseconds for which the GPU is kept busy while the host queues a run, by name.
        repeat: timed runs of each.
        until: the `time.monotonic()` by which it should end.
        shuffled: whether each round has an order of its own, as `orders` gives it.
    """
    half = until if device == "cpu" else (time.monotonic() + until) / 2
    walls = _times(runs, lambda name: _wall(runs[name], device), repeat, half, shuffled)
    if device == "cpu":
        return {name: Side(_median(w), None, None, len(w)) for name, w in walls.items()}
    queued = _times(
        runs, lambda name: timed(runs[name], device, ahead[name]), repeat, until, shuffled
    )
    return {
        name: Side(
            _median(walls[name]),
            _median([on_device for on_device, _ in pairs]),
            _median([host for _, host in pairs]),
            len(pairs),
        )
        for name, pairs in queued.items()
    }


def orders(names: Sequence[str]) -> Iterator[list[str]]:
    """The order of each round: one drawn at random, the same in each process, then its reverse.

    A run right behind one of other code finds the caches of the processor cold, which takes 0.1 ms
    of the host, and a run behind one of the same code does not. So neither of two contenders may
    run behind the other more often than the other behind it.

    Args:
        names: of the contenders.

    Example:
        >>> from itertools import islice
        >>> from rnnc.bench.users.measure import orders
        >>> first, second = islice(orders(["a", "b", "c"]), 2)
        >>> first == second[::-1]
        True
    """
    draw = random.Random(0)
    while True:
        order = draw.sample(names, len(names))
        yield order
        yield order[::-1]


def _times(
    names: Iterable[str],
    clock: Callable[[str], Time],
    repeat: int,
    until: float,
    shuffled: bool,
) -> dict[str, list[Time]]:
    """What a clock gives for each name, in turns."""
    found: dict[str, list[Time]] = {name: [] for name in names}
    rounds = orders(list(found)) if shuffled else itertools.repeat(list(found))
    for turn, order in enumerate(itertools.islice(rounds, repeat)):
        if turn >= _LEAST_RUNS and time.monotonic() > until:
            break
        for name in order:
            found[name].append(clock(name))
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
