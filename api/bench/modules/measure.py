"""Times the cases of modules: contenders in turns, from an idle device and with a full queue."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median
from typing import Any, Self

import torch

from ..errors import in_a_line
from ..time_limit import within
from ..timing import free, timed, wall, warm_up
from ..turns import in_turns
from .cases import Case
from .contenders import OURS, STEPPER, Make, Run, user_contenders
from .ragged import ragged_contenders, ragged_inputs

_WARM_UPS = 4
_MOST_SECONDS = 8.0  # of a user's case; after them it has the fewest runs


@dataclass(frozen=True)
class Side:
    """The times of one contender, in milliseconds; medians.

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
class Result:
    """Times of a case.

    Attributes:
        case: the case.
        sides: the times of each contender that ran, by name.
        failures: why one did not run, by name.
    """

    case: Case
    sides: dict[str, Side] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> Side | None:
        """The times of rnnc."""
        return self.sides.get(OURS)

    def faster_than(self, name: str) -> float | None:
        """Return how many times as fast as a contender rnnc is by wall-clock."""
        other = self.sides.get(name)
        return other.wall / self.ours.wall if self.ours and other else None

    def record(self) -> dict[str, Any]:
        """All of it, as JSON writes it."""
        times = {name: self.faster_than(name) for name in self.sides if name != OURS}
        return {"name": str(self.case), **asdict(self), "times": times}


@dataclass
class UserResult(Result):
    """Times of a user's case: rnnc, `rnn.stepper` where it can do the case, torch by dtype."""

    @property
    def failure(self) -> str:
        """Why rnnc or a peer did not run, or the case was not started."""
        return next(reversed(self.failures.values()), "")

    @property
    def stepper(self) -> Side | None:
        """The times of `rnn.stepper`."""
        return self.sides.get(STEPPER)

    @property
    def peers(self) -> dict[str, Side]:
        """torch's, by dtype."""
        return {name: side for name, side in self.sides.items() if name not in (OURS, STEPPER)}

    @property
    def peer(self) -> Side | None:
        """The faster of torch's, from an idle device."""
        return min(self.peers.values(), key=lambda side: side.wall, default=None)

    @property
    def times(self) -> float | None:
        """Factor by which rnnc is faster than torch by wall-clock."""
        return self._times(self.ours, "wall")

    @property
    def stepper_times(self) -> float | None:
        """The same of `rnn.stepper`."""
        return self._times(self.stepper, "wall")

    @property
    def device_times(self) -> float | None:
        """The same of the GPU's time; None on a CPU."""
        return self._times(self.ours, "device")

    def _times(self, side: Side | None, clock: str) -> float | None:
        found = [took for peer in self.peers.values() if (took := getattr(peer, clock))]
        own = getattr(side, clock, None)
        return min(found) / own if found and own else None

    def record(self) -> dict[str, Any]:
        """All of it, as JSON writes it."""
        return {
            "name": str(self.case),
            "case": asdict(self.case),
            "ours": self.ours and asdict(self.ours),
            "peers": {dtype: asdict(side) for dtype, side in self.peers.items()},
            "stepper": self.stepper and asdict(self.stepper),
            "failure": self.failure,
            "times": self.times,
            "device_times": self.device_times,
            "stepper_times": self.stepper_times,
        }

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Self:
        """Return what `record` gave, read from a file."""
        sides = record["peers"] | {OURS: record["ours"], STEPPER: record.get("stepper")}
        kept = {name: Side(**side) for name, side in sides.items() if side}
        failures = {"": record["failure"]} if record["failure"] else {}
        return cls(Case(**record["case"]), kept, failures)


def measure_user(case: Case, device: str, repeat: int, until: float) -> UserResult:
    """Time rnnc and torch in a user's case, each `repeat` times.

    It should end by `until`, a `time.monotonic()`: a long case has fewer runs.
    """
    until = min(until, time.monotonic() + _MOST_SECONDS)
    found = UserResult(case)
    runs = _started(found, user_contenders(case, device), device)
    found.sides = _sides(runs, device, repeat, until)
    runs.clear()
    if case.compiled:
        torch.compiler.reset()
    free(device)
    return found


def measure_ragged(
    case: Case, device: str, repeat: int, seconds: float, ready: float = math.inf
) -> Result:
    """Time a forward and its backward of all contenders of a ragged case, each `repeat` times.

    After some `seconds` each has the fewest runs. It must be compiled and warm in `ready` seconds.
    """
    found = Result(case)
    contenders = ragged_contenders(case, ragged_inputs(case, device))
    runs = _started(found, contenders, device, ready)
    until = time.monotonic() + seconds
    found.sides = _sides(runs, device, repeat, until, shuffled=True)
    runs.clear()
    free(device)
    return found


def _started(
    found: Result, contenders: Iterable[tuple[str, Make]], device: str, ready: float = math.inf
) -> dict[str, tuple[Run, float]]:
    """Return what runs, warm, and for how many milliseconds the GPU is busy while it is queued."""
    runs = {}
    for name, make in contenders:
        try:
            with within(ready):
                run = make()
                runs[name] = run, warm_up(run, device, _WARM_UPS).ahead
        except Exception as error:
            # Any error is a line of the table, and the others go on.
            found.failures[name] = in_a_line(error)
    return runs


def _sides(
    runs: dict[str, tuple[Run, float]],
    device: str,
    repeat: int,
    until: float,
    shuffled: bool = False,
) -> dict[str, Side]:
    """Time contenders in turns, first from an idle device and then with a full queue."""
    half = until if device == "cpu" else (time.monotonic() + until) / 2
    clocks = {name: partial(wall, run, device) for name, (run, _) in runs.items()}
    walls = in_turns(clocks, repeat, half, shuffled=shuffled)
    if device == "cpu":
        return {name: Side(median(took), None, None, len(took)) for name, took in walls.items()}
    events = {name: partial(timed, run, device, ahead) for name, (run, ahead) in runs.items()}
    queued = in_turns(events, repeat, until, shuffled=shuffled)
    return {
        name: Side(
            median(walls[name]),
            median(on_device for on_device, _ in pairs),
            median(host for _, host in pairs),
            len(pairs),
        )
        for name, pairs in queued.items()
    }
