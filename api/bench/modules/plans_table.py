"""The table of `rnnc bench --users --plans`, and what it comes to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.table import Table

from ..table import plain_table
from .plans import PlanResult

WORST = 1.1  # the ratio from which a choice counts as wrong


def plans_table(found: Sequence[PlanResult]) -> Table:
    """A line per case and direction: `"auto"`'s choice and the fastest, the worst first."""
    words = ("case", "direction", "auto", "best")
    numbers = ("ms", "by the model", "best ms", "times")
    table = plain_table("ms per kernel, auto / best", words, numbers)
    for each in worst_first(found):
        ratio = each.ratio
        slow = ratio is None or ratio > WORST
        times = [each.auto.took, each.auto.estimate, each.best.took]
        table.add_row(
            f"{each.case}: {each.auto.failure}" if each.auto.failure else each.case,
            each.direction,
            each.auto.kind,
            "the same" if each.best is each.auto else f"{each.best.kind}: {each.best.sizes}",
            *("-" if each is None else f"{each:.4g}" for each in times),
            "-" if ratio is None else f"{ratio:.3f}",
            style="red" if slow else "",
        )
    return table


def worst_first(found: Sequence[PlanResult]) -> list[PlanResult]:
    """The results, those without a time first, then from the worst choice on."""
    return sorted(found, key=lambda each: -(each.ratio or float("inf")))


def plans_summary(found: Sequence[PlanResult]) -> dict[str, float | int | str]:
    """Return what the choices come to, by name."""
    ran = [(each, each.ratio, each.error) for each in worst_first(found)]
    timed = [(each, ratio, error) for each, ratio, error in ran if ratio and error is not None]
    if not timed:
        return {"kernels": 0, "failed": len(found)}
    worst, most, _ = timed[0]
    every = [
        abs(tiling.estimate / tiling.took - 1)
        for each in found
        for tiling in each.tilings
        if tiling.took
    ]
    return {
        "kernels": len(timed),
        "failed": len(found) - len(timed),
        "geometric mean of auto / best": statistics.geometric_mean(r for _, r, _ in timed),
        "worst": most,
        "worst case": f"{worst.case}, {worst.direction}",
        f"above {WORST}": sum(ratio > WORST for _, ratio, _ in timed),
        "median error of the estimate": statistics.median(abs(e) for _, _, e in timed),
        "the same of all tilings": statistics.median(every),
    }
