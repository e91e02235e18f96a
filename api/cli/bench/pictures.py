"""The figures of the tables of `rnnc bench`, for their pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...bench.modules.measure import Result, Side, UserResult
from ...bench.modules.plans import PlanResult
from ...bench.results import PHASES, Comparison
from ...bench.scans.measure import ScanResult
from ..picture import Mark


def rows_marks(found: Sequence[Comparison]) -> Iterator[Mark]:
    """Times of all contenders, of the plan that `"auto"` runs, and targets: a row for each phase.

    Args:
        found: what was measured.
    """
    for comparison in found:
        for place, phase in enumerate(PHASES[:2]):
            row = f"{comparison.row}: {'forward + backward' if place else 'forward'}"
            for result in comparison.results:
                contender, figure = result.contender, result.figures.get(phase)
                terms = "" if contender.terms == "wx ready" else " +"
                name = f"{contender.name}, {contender.dtype}{terms}{' *' * bool(contender.note)}"
                yield Mark(row, name, figure.median if figure else None, contender.ours)
                if contender.variant == "auto" and result.planned:
                    nanoseconds = sum(result.planned[: place + 1]) * comparison.row.steps
                    yield Mark(row, "auto by the model", 1e-6 * nanoseconds)
            if comparison.row.target:
                yield Mark(row, "target", comparison.row.target[place])


def users_marks(found: Sequence[UserResult]) -> Iterator[Mark]:
    """Wall-clock times of rnnc, of its stepper and of torch.

    Args:
        found: what was measured.
    """
    for result in found:
        row = str(result.case)
        yield Mark(row, "rnnc", _wall(result.ours), ours=True)
        yield Mark(row, "rnnc, stepper", _wall(result.stepper))
        yield Mark(row, "torch", _wall(result.peer))


def _wall(side: Side | None) -> float | None:
    return side.wall if side else None


def ragged_marks(found: Sequence[Result]) -> Iterator[Mark]:
    """Wall-clock times of all contenders.

    Args:
        found: what was measured.
    """
    for result in found:
        for name, side in result.sides.items():
            yield Mark(str(result.case), name, side.wall, ours=name == "rnnc")


def peers_marks(cases: Sequence[dict[str, Any]]) -> Iterator[Mark]:
    """Times of a forward and its backward of all contenders.

    Args:
        cases: what `measure_peers` gave.
    """
    for case in cases:
        for each in case["contenders"]:
            name = f"{each['name']}, {each['dtype']}"
            ours = each["name"].startswith("rnnc")
            yield Mark(case["name"], name, each["forward_backward"], ours)


def scans_marks(found: Sequence[ScanResult]) -> Iterator[Mark]:
    """Times of a forward and its backward of all contenders, and the floor.

    Args:
        found: what was measured.
    """
    for result in found:
        row = f"{result.case}, {result.dtype}"
        for name, took in result.took.items():
            yield Mark(row, name, took.forward_backward, ours=name.startswith("rnnc auto"))
        if result.floor:
            yield Mark(row, "floor", result.floor.forward_backward)


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
