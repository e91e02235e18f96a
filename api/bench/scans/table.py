"""The table of `rnnc bench --scans`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from ..rows import Pair
from ..table import pair, plain_table
from .measure import ScanResult


def scans_table(found: Sequence[ScanResult]) -> Table:
    """A line per contender of each case."""
    title = "ms of a forward, and with its backward; * another function or size"
    table = plain_table(title, ["case", "contender"], ["forward", "+ backward", "times the floor"])
    for result in found:
        name, floor = f"{result.case}, {result.dtype}", result.floor
        if floor is not None:
            table.add_row(name, "floor", *_shown(floor), "")
            name = ""
        for contender, took in result.took.items():
            star = " *" if contender in result.notes else ""
            times = [t / f for t, f in zip(took, floor or (), strict=False)]
            table.add_row(name, f"{contender}{star}", *_shown(took), pair(times, ".3g"))
            name = ""
        for contender in result.left_out:
            table.add_row(name, contender, "-", "-", "-")
            name = ""
    return table


def reasons(found: Sequence[ScanResult]) -> str:
    """Why contenders did not run, a line each: "-" in the table."""
    lines = (f"{name}: {why}" for result in found for name, why in result.left_out.items())
    return "\n".join(dict.fromkeys(lines))


def _shown(took: Pair) -> list[str]:
    return [f"{each:.3g}" for each in took]
