"""Trials of plans on a device: the cheapest few are timed, and the fastest is remembered."""

from __future__ import annotations

import itertools
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.pairs import cheapest
from ...codegen.cuda.planner import plans_for
from ...codegen.plan import Plan
from ...codegen.request import steps_like
from ...codegen.shape import PlanError
from ...errors import RnncError
from ..call.requests import LayerBackward
from ..call.tensors import Forward, ScanInputs, saved_of
from ..store.log import log
from ..store.tuned import Asked, remember
from . import kernels
from .driver.streams import on_device
from .launch import CallSizes
from .prepared import Prepared, prepare

# Times a function that launches kernels, and may call it any number of times.
Clock = Callable[[Callable[[], None]], float]


class TrialCall:
    """Inputs of a size, and a forward and a backward over `most_steps` of them by any plan."""

    def __init__(self, asked: Asked, device: torch.device, most_steps: int) -> None:
        cell, shape = asked.cell, asked.shape
        self.steps = min(shape.steps, most_steps)
        self._cell, self._again = cell, asked.save == "states"
        heads, dim = shape.heads, shape.head_dim
        self._device, self._sizes = device, CallSizes(shape.batch, heads, dim)
        generator = torch.Generator(device).manual_seed(0)

        def draw(*size: int, scale: float = 1.0) -> Tensor:
            drawn = torch.randn(size, generator=generator, device=device)
            return (scale * drawn).to(getattr(torch, shape.dtype))

        dense, diagonal = len(cell.dense_pairs), len(cell.diagonal_pairs)
        self._inputs = ScanInputs(
            wx=draw(self.steps, shape.batch, heads, dim, len(cell.input_gates)).transpose(0, 1),
            R=draw(dense, heads, dim, dim, scale=0.5 / dim**0.5) if dense else None,
            b=draw(len(cell.bias_gates), heads, dim) if cell.bias_gates else None,
            initial_states=[draw(shape.batch, heads, dim, scale=0.0) + s.init for s in cell.states],
            R_diag=draw(diagonal, heads, dim, scale=0.5) if diagonal else None,
            params=[draw(heads, dim, scale=0.0) + p.init for p in cell.params],
            unweighted=[
                draw(shape.batch, self.steps, *((heads, dim) if given.draw else (1, 1)))
                for given in cell.inputs
            ],
        )
        self._d_output = draw(self.steps, shape.batch, heads, dim)

    def forward(self, plan: KernelPlan, run: kernels.RunKernels | None = None) -> Forward:
        """Run the forward of a call by a plan of it; `run` takes the place of the launcher's."""
        return kernels.forward(self._prepared(plan), self._inputs, run=run)

    def backward(
        self, plan: KernelPlan, done: Forward, run: kernels.RunKernels | None = None
    ) -> None:
        """Run the backward of a call by a plan of it, after a forward by any plan."""
        others = [None] * (len(done.last) - 1)
        saved = saved_of(self._inputs, done, self._again)
        asked = LayerBackward(saved, [self._d_output, *others], [None, *others])
        kernels.Backward(self._prepared(plan), asked, run=run).run()

    def launches(self, plan: KernelPlan, done: Forward, clock: Clock) -> float:
        """Return the clock's time of the launches of one direction, which follows `done`, alone."""
        launcher, found = self._prepared(plan).launcher, list[float]()

        def run(*given: Any) -> None:
            found.append(clock(lambda: launcher.run(*given)))

        if plan.direction == "forward":
            self.forward(plan, run)
        else:
            self.backward(plan, done, run)
        return found[0]

    def _prepared(self, plan: KernelPlan) -> Prepared:
        return prepare(self._cell, plan, self._sizes, self._device.index)


CANDIDATES = 4
_DOUBT = 2  # by which factor an estimate may be wrong
# Of a trial at most, of a cell with dense matrices: a step takes as long in a longer one.
_STEPS = 256
_MOST_BYTES = 2**30  # of the inputs of a trial of another cell, whose steps are those of the call
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
    """Time the plans with the lowest estimates, and remember the fastest.

    They are timed on the device, on torch's current stream: on at most 256 steps of a cell with
    dense matrices. Walks and scans of others are timed on as many as `steps_like` chooses for.

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
        call = TrialCall(asked, torch.device("cuda", device), trial_steps(asked))
        found: list[list[tuple[float, float]] | Exception] = [[] for _ in plans]
        for _ in range(2 + _ROUNDS):  # twice for what is made on first use
            for i, plan in enumerate(plans):
                times = found[i]
                if isinstance(times, list):
                    try:
                        times.append(_time(call, plan))
                    except (RnncError, torch.cuda.OutOfMemoryError) as error:
                        found[i] = error
        return [t if isinstance(t, Exception) else _medians(t[2:], call.steps) for t in found]


def trial_steps(asked: Asked) -> int:
    """Return the most steps of a trial.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.runtime.cuda.tune import trial_steps
        >>> from rnnc.runtime.store.tuned import Asked
        >>> cells, shape = (rnnc.cells.lstm, rnnc.cells.hgrn), rnnc.Shape(4, 512, 1, 65536)
        >>> [trial_steps(Asked(cell, shape, limits_of("H200"))) for cell in cells]
        [256, 16384]
    """
    cell, shape = asked.cell, asked.shape
    if cell.dense_pairs:
        return _STEPS
    values = shape.batch * shape.heads * shape.head_dim * max(len(cell.input_gates), 1)
    most = _MOST_BYTES // (values * shape.element_bytes)
    return min(steps_like(cell, shape.steps), max(most, _STEPS))


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
