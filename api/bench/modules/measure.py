"""Times the cases of modules: contenders in turns, from an idle device and with a full queue."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import partial
from statistics import median

import torch

from ..errors import reason
from ..time_limit import within
from ..timing import free, timed, wall, warm_up
from ..turns import in_turns
from .cases import Case
from .contenders import Make, Run
from .results import ModuleResult, Side

METHOD = (
    "milliseconds; medians of at most {repeat} runs after 4, contenders in turns, in an order drawn"
    " for every two rounds, of which the second has its reverse; wall: host's clock, from an idle"
    " device until it is idle again; device: CUDA events behind queued work; torch's module with"
    " default flags"
)
_WARM_UPS = 4
_MOST_SECONDS = 8.0  # of a case; after them it has the fewest runs


def measure_modules(
    case: Case,
    contenders: Iterable[tuple[str, Make]],
    device: str,
    repeat: int,
    until: float = math.inf,
    ready: float = math.inf,
) -> ModuleResult:
    """Time the contenders of a case, each `repeat` times.

    Args:
        case: the case.
        contenders: a name, and what makes it, of each.
        device: "cpu" or "cuda".
        repeat: runs of each at most.
        until: the `time.monotonic()` by which it should end: a long case has fewer runs.
        ready: seconds in which a contender must be compiled and warm.
    """
    found = ModuleResult(case)
    runs = _started(found, contenders, device, ready)
    until = min(until, time.monotonic() + _MOST_SECONDS)
    found.sides = _sides(runs, device, repeat, until)
    runs.clear()
    if case.compiled:
        torch.compiler.reset()
    free(device)
    return found


def _started(
    found: ModuleResult, contenders: Iterable[tuple[str, Make]], device: str, ready: float
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
            found.failures[name] = reason(error)
    return runs


def _sides(
    runs: dict[str, tuple[Run, float]], device: str, repeat: int, until: float
) -> dict[str, Side]:
    """Time contenders in turns, first from an idle device and then with a full queue."""
    half = until if device == "cpu" else (time.monotonic() + until) / 2
    clocks = {name: partial(wall, run, device) for name, (run, _) in runs.items()}
    walls = in_turns(clocks, repeat, half, shuffled=True)
    if device == "cpu":
        return {name: Side(median(took), runs=len(took)) for name, took in walls.items()}
    events = {name: partial(timed, run, device, ahead) for name, (run, ahead) in runs.items()}
    queued = in_turns(events, repeat, until, shuffled=True)
    found = {}
    for name, pairs in queued.items():
        on_device, host = (median(each) for each in zip(*pairs, strict=True))
        found[name] = Side(median(walls[name]), on_device, host, len(pairs))
    return found
