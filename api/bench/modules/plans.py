"""Times the kernels of a user's case: what `"auto"` chose beside the best tilings of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch

from ...cellspec.library import load
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.kinds import best_tilings
from ...codegen.cuda.limits import Limits
from ...codegen.cuda.planner import plan_for
from ...codegen.plan import Plan
from ...codegen.shape import DIRECTIONS, Direction, Shape
from ...errors import RnncError
from ...runtime.cuda.products.multiplier import rounds
from ...runtime.cuda.tune import Clock, TrialCall
from ...runtime.store.plan_json import packed_plan
from ...runtime.store.tuned import Asked
from ..errors import reason
from ..inputs import DTYPES
from ..timing import queued_launches
from ..turns import in_turns
from .cases import Case

MOST_STEPS = 256  # of a trial: a step takes as long in a longer one
_PASSES = 2
_SECONDS = 0.008  # of the GPU per tiling and pass


@dataclass(frozen=True)
class Tiling:
    """A kernel of a case, and what it took.

    Attributes:
        kind: of plan.
        sizes: of the plan, in words.
        estimate: the cost model's, in milliseconds for all steps.
        took: milliseconds on the GPU; None if it failed.
        failure: why it did.
        plan: the plan by its fields; {} in files of before they were kept.
    """

    kind: str
    sizes: str
    estimate: float
    took: float | None
    failure: str
    plan: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanResult:
    """The kernels of one direction of a case.

    Attributes:
        case: its name.
        direction: "forward" or "backward".
        steps: that were run.
        chosen: the place of the tiling that `"auto"` chose.
        tilings: all that were timed.
    """

    case: str
    direction: str
    steps: int
    chosen: int
    tilings: tuple[Tiling, ...]

    @property
    def auto(self) -> Tiling:
        """Kind of plan that `"auto"` chose."""
        return self.tilings[self.chosen]

    @property
    def best(self) -> Tiling:
        """The fastest; what `"auto"` chose where none ran."""
        ran = [tiling for tiling in self.tilings if tiling.took]
        return min(ran, key=lambda tiling: tiling.took or 0, default=self.auto)

    @property
    def ratio(self) -> float | None:
        """The time of what `"auto"` chose over that of the fastest; None if it failed."""
        return self.auto.took / self.best.took if self.auto.took and self.best.took else None

    @property
    def error(self) -> float | None:
        """By which part the estimate of what `"auto"` chose is above the measured time."""
        return self.auto.estimate / self.auto.took - 1 if self.auto.took else None

    def record(self) -> dict[str, Any]:
        """All of it, as JSON writes it."""
        return {**asdict(self), "ratio": self.ratio, "error": self.error}


class Candidates:
    """The kernels of a case."""

    def __init__(self, case: Case, limits: Limits) -> None:
        self.case = case
        self.directions: Sequence[Direction] = DIRECTIONS if case.trains else DIRECTIONS[:1]
        self.steps = min(case.steps, MOST_STEPS)
        cell, tf32 = load(case.module), rounds(DTYPES[case.dtype], None)
        shape = Shape(1, case.hidden, case.batch, dtype=case.dtype)
        self.asked = Asked(cell, shape, limits, tf32=tf32)
        self.chosen: Plan = plan_for(cell, shape, limits, tf32=tf32)
        self._tilings = {
            d: dict.fromkeys([self.chosen.kernel(d), *best_tilings(self.asked, d)])
            for d in self.directions
        }

    @property
    def key(self) -> tuple[object, ...]:
        """Facts on which the times depend."""
        return self.asked, self.steps, self.directions

    def of(self, direction: Direction) -> list[KernelPlan]:
        """The kernels of a direction: what `"auto"` chose, then the best of each kind."""
        found = {plan.as_compiled(): plan for plan in reversed(self._tilings[direction])}
        return list(reversed(found.values()))

    def all(self) -> Iterator[KernelPlan]:
        """The kernels of all directions."""
        yield self.chosen.forward  # runs before a backward
        for direction in self.directions:
            yield from self.of(direction)


def measure_plans(
    candidates: Candidates, device: torch.device, clock: Clock | None = None
) -> list[PlanResult]:
    """Time the kernels of a case, each alone."""
    clock = clock or (lambda run: queued_launches(run, _SECONDS, rounds=3))
    with torch.no_grad():
        call = TrialCall(candidates.asked, device, candidates.steps)
        done = call.forward(candidates.chosen.forward)
        found = []
        for direction in candidates.directions:
            plans = candidates.of(direction)
            took = _took(plans, lambda plan: call.launches(plan, done, clock))
            tilings = tuple(
                _tiling(plan, each, candidates.steps)
                for plan, each in zip(plans, took, strict=True)
            )
            found.append(PlanResult(str(candidates.case), direction, candidates.steps, 0, tilings))
    return found


def _took(
    plans: Sequence[KernelPlan], launches: Callable[[KernelPlan], float]
) -> list[float | Exception]:
    """The shortest time of each plan, all in turns, or its error."""
    errors: dict[int, Exception] = {}

    def failed(place: int, error: Exception) -> None:
        if not isinstance(error, RnncError | torch.OutOfMemoryError):
            raise error
        errors[place] = error

    clocks = {place: partial(launches, plan) for place, plan in enumerate(plans)}
    found = in_turns(clocks, _PASSES, failed=failed)
    return [errors[place] if place in errors else min(took) for place, took in found.items()]


def _tiling(plan: KernelPlan, took: float | Exception, steps: int) -> Tiling:
    failure = reason(took) if isinstance(took, Exception) else ""
    return Tiling(
        plan.kind,
        f"{plan.mapping}; {plan.sizes}",
        1e-6 * plan.estimate.of_call(steps),
        None if isinstance(took, Exception) else took,
        failure,
        packed_plan(plan),
    )
