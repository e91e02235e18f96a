"""The measurements of rows, the figures that follow from them, and their JSON record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..codegen.plan import Plan
from ..codegen.shape import DIRECTIONS
from .contenders.contender import Contender
from .rows import Row
from .timing import Figure, WarmUp

Phase = Literal["forward", "forward_backward", "inference"]
PHASES: tuple[Phase, ...] = ("forward", "forward_backward", "inference")


@dataclass
class Result:
    """The measurements of a contender.

    Attributes:
        contender: the contender.
        figures: the times, by phase.
        failures: why a phase did not run, by phase; "prepare" stands for all phases.
        first_seconds: seconds to its first result in this process, compilation included.
        warm_ups: the first runs of each phase, which may compile too.
        peak_mib: peak memory of a training step, without the inputs; None on the CPU.
        plan: the plan of rnnc's kernels on a GPU, with its estimates.
        absent: why it cannot take part, for example because its variant has no plan for the row.
    """

    contender: Contender
    figures: dict[Phase, Figure] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    first_seconds: float | None = None
    warm_ups: dict[Phase, WarmUp] = field(default_factory=dict)
    peak_mib: float | None = None
    plan: Plan | None = None
    absent: str = ""

    @property
    def planned(self) -> tuple[int, int] | None:
        """The plan's estimates in ns per step, forward and backward."""
        return self.plan.nanoseconds if self.plan else None

    @property
    def runs_as(self) -> str:
        """The variant of the plan that runs, which `"auto"` chooses; empty if there is no plan."""
        return self.plan.variant if self.plan else ""

    def nanoseconds(self, steps: int) -> tuple[float | None, float | None]:
        """Nanoseconds per step: of the forward, and of the backward alone."""
        forward, both = (self.figures.get(p) for p in PHASES[:2])
        return (
            1e6 * forward.median / steps if forward else None,
            1e6 * (both.median - forward.median) / steps if forward and both else None,
        )

    def over_plan(self, steps: int) -> dict[str, float] | None:
        """The measured time over the plan's estimate, by direction; None if there is no plan."""
        if self.planned is None:
            return None
        took = zip(DIRECTIONS, self.nanoseconds(steps), self.planned, strict=True)
        return {name: got / planned for name, got, planned in took if got and planned}


@dataclass
class Comparison:
    """The measurements of a row.

    Attributes:
        row: the sizes.
        results: one per contender, including those that failed.
        left_out: why a contender was not started, by its name.
        first: seconds to the first result of a new process, by contender.
    """

    row: Row
    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    first: dict[str, dict[str, float | str]] = field(default_factory=dict)

    def best_peer(self, contender: Contender, phase: Phase) -> float | None:
        """Milliseconds of the fastest other library on the terms of a contender, in any dtype.

        None if no peer was measured on these terms.
        """
        peers = [
            result.figures[phase].median
            for result in self.results
            if phase in result.figures and not (result.contender.ours or result.contender.note)
            if result.contender.terms == contender.terms
        ]
        return min(peers, default=None)

    def reached(self, result: Result) -> dict[str, bool]:
        """Which of the row's targets a contender of rnnc meets; targets hold for wx ready."""
        target, contender = self.row.target, result.contender
        if target is None or not contender.ours or contender.terms != "wx ready":
            return {}
        goals = zip(PHASES, target, strict=False)
        return {p: result.figures[p].median <= goal for p, goal in goals if p in result.figures}

    def record(self) -> dict[str, Any]:
        """All measurements of the row, as JSON writes them."""
        return {
            **asdict(self.row),
            "contenders": [self._contender(result) for result in self.results],
            "left_out": self.left_out,
            "first_result_seconds": self.first,
        }

    def _contender(self, result: Result) -> dict[str, Any]:
        contender, steps, planned = result.contender, self.row.steps, result.planned
        figures = {p: asdict(f) for p, f in result.figures.items()}
        peers = {p: self.best_peer(contender, p) for p in PHASES} if contender.ours else {}
        names = ("name", "dtype", "ours", "terms", "variant")
        return {
            **{name: getattr(contender, name) for name in names},
            "runs_as": result.runs_as or None,
            "note": contender.note,
            **{p: figures.get(p) for p in PHASES},
            "failures": result.failures,
            "first_call_seconds": result.first_seconds,
            "first_run_seconds": {p: w.first for p, w in result.warm_ups.items()},
            "peak_mib": result.peak_mib,
            "nanoseconds_a_step": dict(zip(DIRECTIONS, result.nanoseconds(steps), strict=True)),
            "planned_nanoseconds_a_step": planned and dict(zip(DIRECTIONS, planned, strict=True)),
            "measured_over_planned": result.over_plan(steps),
            "times_best_peer": {
                p: figures[p]["median"] / peer for p, peer in peers.items() if peer and p in figures
            },
            "target_reached": self.reached(result),
        }
