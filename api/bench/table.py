"""The form of all tables of `rnnc bench` and of the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def plain_table(title: str, words: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """A table without lines, in which `add_row` adds a row.

    Args:
        title: above it.
        words: the first columns, which begin at the left.
        numbers: the other columns, which end at the right and are never cut.
    """
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.header_style = "bold"
    for column in words:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def pair(values: Sequence[float | None], form: str, scale: float = 1.0) -> str:
    """Numbers side by side, such as "0.45 / 1.30"; None is left out."""
    return " / ".join(f"{value * scale:{form}}" for value in values if value is not None)
