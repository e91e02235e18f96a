"""The table of `rnnc bench --users --plans`, and what it comes to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import geometric_mean, median

from rich.markup import escape
from rich.table import Table

from ..table import plain_table
from .plans import PlanResult, Tiling

WORST = 1.1  # the ratio from which a choice counts as wrong
# The sizes of a tiling that the table shows.
_SHORT = re.compile(
    r"\d+ batch rows|\d+ phases|\d+ blocks? of \d+ units|clusters of \d+|\d+ warps"
    r"|matrix library"
)


def plans_table(found: Sequence[PlanResult]) -> Table:
    """A line per case and direction: `"auto"`'s choice and the fastest, the worst first."""
    columns = ["case, direction", "auto", "ms (by the model)", "fastest", "ms (by the model)"]
    table = plain_table("ms per kernel, auto / fastest", columns, ["times"])
    for each in worst_first(found):
        ratio = each.ratio
        failure = f": {each.auto.failure}" if each.auto.failure else ""
        table.add_row(
            escape(f"{each.case}, {each.direction}{failure}"),
            *_words(each.auto),
            *(("the same", "") if each.best is each.auto else _words(each.best)),
            "-" if ratio is None else f"{ratio:.2f}",
            style="red" if ratio is None or ratio > WORST else "",
        )
    return table


def _words(tiling: Tiling) -> tuple[str, str]:
    """A tiling in short words, and its time beside its estimate."""
    short = ", ".join(match[0] for match in _SHORT.finditer(tiling.sizes))
    took = "-" if tiling.took is None else f"{tiling.took:.3g}"
    return f"{tiling.kind}: {short}", f"{took} ({tiling.estimate:.3g})"


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
    every = [abs(t.estimate / t.took - 1) for each in found for t in each.tilings if t.took]
    return {
        "kernels": len(timed),
        "failed": len(found) - len(timed),
        "geometric mean of auto / best": geometric_mean(r for _, r, _ in timed),
        "worst": most,
        "worst case": f"{worst.case}, {worst.direction}",
        f"above {WORST}": sum(ratio > WORST for _, ratio, _ in timed),
        "median error of the estimate": median(abs(e) for _, _, e in timed),
        "the same of all tilings": median(every),
    }
