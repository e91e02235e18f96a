"""The figures of the tables of `rnnc bench`, for their pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...bench.modules.plans import PlanResult
from ...bench.modules.results import OURS, ModuleResult
from ...bench.results import PHASES, Phase, median_of
from ...bench.tables import marked
from ..picture import Mark


def cases_marks(
    cases: Sequence[dict[str, Any]], phases: Sequence[Phase] = PHASES[:2]
) -> Iterator[Mark]:
    """Times of all contenders, of the plan that `"auto"` runs, targets, floors: a row per phase.

    Args:
        cases: records, as `Comparison.record` gives them.
        phases: those that are shown.
    """
    for case in cases:
        for place, phase in enumerate(PHASES[:2]):
            if phase not in phases:
                continue
            name = case["name"]
            row = f"{name}: {'forward + backward' if place else 'forward'}" if phases[1:] else name
            for each in case["contenders"]:
                ours = each["name"].startswith("rnnc")
                yield Mark(row, marked(each | {"runs_as": None}), median_of(each, phase), ours)
                planned = (
                    each.get("planned_nanoseconds_a_step") if each["name"] == "rnnc auto" else None
                )
                if planned:
                    nanoseconds = sum([*planned.values()][: place + 1]) * case["steps"]
                    yield Mark(row, "auto by the model", 1e-6 * nanoseconds)
            for goal in ("target", "floor"):
                if case.get(goal):
                    yield Mark(row, goal, case[goal][place])


def modules_marks(found: Sequence[ModuleResult]) -> Iterator[Mark]:
    """Wall-clock times of all contenders.

    Args:
        found: what was measured.
    """
    for result in found:
        for name, side in result.sides.items():
            yield Mark(str(result.case), name, side.wall, ours=name == OURS)


def plans_marks(found: Sequence[PlanResult]) -> Iterator[Mark]:
    """Times of the plans that `"auto"` chose, of the fastest, and of the model.

    Args:
        found: what was measured.
    """
    for each in found:
        row = f"{each.case}, {each.direction}"
        yield Mark(row, "auto", each.auto.took, ours=True)
        yield Mark(row, "the fastest", each.best.took)
        yield Mark(row, "auto by the model", each.auto.estimate)
