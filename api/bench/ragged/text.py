"""The table of `rnnc bench --ragged`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from .measure import RaggedResult


def ragged_table(found: Sequence[RaggedResult], device: str) -> Table:
    """A line per contender: milliseconds, and how many times as fast rnnc is.

    Args:
        found: what was measured.
        device: "cpu" or "cuda".
    """
    table = Table(title="forward + backward, ms", title_justify="left", box=None, pad_edge=False)
    table.header_style = "bold"
    table.add_column("case")
    table.add_column("contender")
    for column in ["wall-clock", *(["GPU"] if device == "cuda" else []), "rnnc is faster"]:
        table.add_column(column, justify="right", no_wrap=True)
    for result in found:
        case = str(result.case)
        for name, side in result.sides.items():
            times = result.times(name) if name != "rnnc" else None
            on_device = [] if side.device is None else [f"{side.device:.3g}"]
            shown = "" if times is None else f"{times:.2f} times"
            table.add_row(case, name, f"{side.wall:.3g}", *on_device, shown)
            case = ""
        for name, failure in result.failures.items():
            table.add_row(case, f"{name}: {failure}")
            case = ""
    return table
