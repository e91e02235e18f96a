"""The measurements of cases, and their JSON record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..codegen.plan import Plan
from ..codegen.shape import DIRECTIONS
from .cases import RowCase
from .contenders.contender import Contender
from .rows import Pair
from .timing import Figure, WarmUp

Phase = Literal["forward", "forward_backward", "inference"]
PHASES: tuple[Phase, ...] = ("forward", "forward_backward", "inference")
TERMS = {"wx ready": "", "with input GEMM": " +"}  # as tables mark them


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

    def record(self, steps: int) -> dict[str, Any]:
        """All of it, as JSON writes it, for so many steps."""
        names = ("name", "dtype", "ours", "terms", "variant", "note")
        forward, both = (self.figures.get(p) for p in PHASES[:2])
        took = (
            1e6 * forward.median / steps if forward else None,
            1e6 * (both.median - forward.median) / steps if forward and both else None,
        )
        planned = self.plan and dict(zip(DIRECTIONS, self.plan.nanoseconds, strict=True))
        return {
            **{name: getattr(self.contender, name) for name in names},
            "runs_as": self.plan.variant if self.plan else None,
            **{p: asdict(self.figures[p]) if p in self.figures else None for p in PHASES},
            "failures": self.failures,
            "first_call_seconds": self.first_seconds,
            "first_run_seconds": {p: w.first for p, w in self.warm_ups.items()},
            "peak_mib": self.peak_mib,
            "nanoseconds_a_step": dict(zip(DIRECTIONS, took, strict=True)),
            "planned_nanoseconds_a_step": planned,
        }


@dataclass
class Comparison:
    """The measurements of a case.

    Attributes:
        case: the sizes, and who was asked.
        results: one per contender, including those that failed.
        left_out: why a contender was not started, by its name.
        first: seconds to the first result of a new process, by contender.
        floor: the least milliseconds, as `floor_of` gives them; None if they were not asked for.
    """

    case: RowCase
    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    first: dict[str, dict[str, float | str]] = field(default_factory=dict)
    floor: Pair | None = None

    def record(self) -> dict[str, Any]:
        """All measurements of the case, as JSON writes them: what tables read."""
        case = self.case
        return {
            "name": str(case),
            **asdict(case.row),
            "float32": case.float32,
            "published": case.published and asdict(case.published),
            "contenders": [result.record(case.row.steps) for result in self.results],
            "left_out": self.left_out,
            "first_result_seconds": self.first,
            "floor": self.floor,
        }


def median_of(contender: dict[str, Any] | None, phase: str) -> float | None:
    """Milliseconds of a contender of a record; the first records of all peers have these alone."""
    found = contender and contender.get(phase)
    median: float | None = found["median"] if isinstance(found, dict) else found
    return median


def called(contender: dict[str, Any]) -> str:
    """The name of a contender of a record, which is its own among those of a case."""
    return f"{contender['name']}, {contender['dtype']}"


def merged(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """A case's record of two runs; contenders of the later one replace the earlier's.

    Example:
        >>> from rnnc.bench.results import merged
        >>> one = {"contenders": [{"name": "a", "dtype": "int8"}], "left_out": {"b, int8": ""}}
        >>> two = {"contenders": [{"name": "b", "dtype": "int8"}], "left_out": {}}
        >>> both = merged(one, two)
        >>> [c["name"] for c in both["contenders"]], both["left_out"]
        (['a', 'b'], {})
    """
    if before is None:
        return now
    found = {called(each): each for each in (*before["contenders"], *now["contenders"])}
    left = {**before["left_out"], **now["left_out"]}
    left = {name: why for name, why in left.items() if name not in found}
    return {**now, "contenders": list(found.values()), "left_out": left}
