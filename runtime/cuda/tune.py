"""Trials of plans on a device: the cheapest few are timed, and the fastest is remembered."""

from __future__ import annotations

import itertools
import logging
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...codegen.cuda.pairs import cheapest
from ...codegen.cuda.planner import plans_for
from ...codegen.plan import Plan
from ...codegen.shape import PlanError
from ...errors import RnncError
from ..store.log import log
from ..store.tuned import Asked, remember
from .driver.streams import on_device
from .trial import TrialCall

CANDIDATES = 4
_DOUBT = 2  # by which factor an estimate may be wrong
_STEPS = 256  # of a trial at most: a step takes as long in a longer one
_ROUNDS = 15
_AHEAD = 4_000_000  # cycles, about 2 ms: the host has sent a whole trial off meanwhile


@dataclass(frozen=True)
class Trial:
    """Plan and its microseconds per step, forward and backward, or why it failed."""

    plan: Plan
    microseconds: tuple[float, float] | None = None
    failure: str = ""


@dataclass(frozen=True)
class Tuning:
    """Trials of the plans of a size, in the order of the estimates, the cheapest first."""

    asked: Asked
    trials: tuple[Trial, ...]

    @property
    def winner(self) -> Plan:
        """Fastest plan, of two where joining directions gains; the cheapest where none ran."""
        ran = [(t.plan, t.microseconds) for t in self.trials if t.microseconds]
        if not ran:
            return self.trials[0].plan
        return cheapest([plan for plan, _ in ran], [took for _, took in ran])


def tune(asked: Asked, device: int, candidates: int = CANDIDATES) -> Tuning:
    """Time the plans with the lowest estimates on at most 256 steps, and remember the fastest.

    They are timed on the device, on torch's current stream.

    Raises:
        PlanError: `candidates` is no positive number.
    """
    if candidates < 1:
        raise PlanError("tune", f"candidates={candidates}", "at least 1", "candidates=4")
    every = plans_for(asked.cell, asked.shape, asked.limits, save=asked.save, tf32=asked.tf32)
    plans = _few(every, candidates)
    log(logging.DEBUG, "timing %d plans of %s", len(plans), asked.cell.name)
    begin = time.perf_counter()
    took = measure_plans(asked, plans, device)
    seconds = time.perf_counter() - begin
    trials = tuple(
        Trial(plan, failure=_in_one_line(t)) if isinstance(t, Exception) else Trial(plan, t)
        for plan, t in zip(plans, took, strict=True)
    )
    found = Tuning(asked, trials)
    if any(trial.microseconds for trial in trials):
        remember(asked, found.winner)
    size, gpu, winner = str(asked.shape), asked.limits.name, found.winner.brief
    told = asked.cell.name, size, gpu, seconds, len(plans), winner
    log(logging.INFO, "tuned %s, %s on %s in %.1f s: of %d plans, %s", *told)
    return found


def _in_one_line(error: Exception) -> str:
    """Return why a plan could not be timed, in one line."""
    said = error.found if isinstance(error, RnncError) else str(error)
    return " ".join(said.split()) or type(error).__name__


def _few(plans: Sequence[Plan], count: int) -> list[Plan]:
    """Return the cheapest of each kind, as estimates are wrong of whole kinds, then the next."""
    best_of_kind = {plan.variant: plan for plan in reversed(plans)}
    bound = _DOUBT * sum(plans[0].costs)
    first = [p for p in plans if p is best_of_kind[p.variant] and sum(p.costs) <= bound]
    rest = [p for p in plans if p not in first]
    return sorted([*first, *rest][:count], key=lambda p: sum(p.costs))


def measure_plans(
    asked: Asked, plans: Sequence[Plan], device: int
) -> list[tuple[float, float] | Exception]:
    """Return medians of plans in turns, in us per step, forward and backward, or their errors."""
    with on_device(torch.device("cuda", device)), torch.no_grad():
        call = TrialCall(asked, torch.device("cuda", device), _STEPS)
        failures: dict[int, Exception] = {}
        times: dict[int, list[tuple[float, float]]] = {i: [] for i in range(len(plans))}
        for turn in range(2 + _ROUNDS):  # twice for what is made on first use
            for i, plan in enumerate(plans):
                if i in failures:
                    continue
                try:
                    took = _time(call, plan)
                except (RnncError, torch.cuda.OutOfMemoryError) as error:
                    failures[i] = error
                    continue
                if turn >= 2:
                    times[i].append(took)
        return [failures.get(i) or _medians(times[i], call.steps) for i in range(len(plans))]


def _medians(times: list[tuple[float, float]], steps: int) -> tuple[float, float]:
    forward, backward = (statistics.median(t) / steps for t in zip(*times, strict=True))
    return forward, backward


def _time(call: TrialCall, plan: Plan) -> tuple[float, float]:
    """Return the microseconds of all steps, forward and backward."""
    make: Any = torch.cuda.Event
    events = [make(enable_timing=True) for _ in range(3)]
    torch.cuda._sleep(_AHEAD)  # type: ignore[no-untyped-call]
    events[0].record()
    done = call.forward(plan.forward)
    events[1].record()
    call.backward(plan.backward, done)
    events[2].record()
    events[2].synchronize()
    first, second = (1000 * a.elapsed_time(b) for a, b in itertools.pairwise(events))
    return first, second
