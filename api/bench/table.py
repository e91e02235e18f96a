"""The form of all tables of `rnnc bench` and of the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text


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


def markdown(table: Table) -> str:
    """A table as the pages have it, without its title.

    Example:
        >>> from rnnc.bench.table import markdown, plain_table
        >>> table = plain_table("", ["cell"], ["ms"])
        >>> table.add_row("lstm", "0.5")
        >>> print(markdown(table))
        | cell | ms |
        |---|---|
        | lstm | 0.5 |
    """
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    plain = [[Text.from_markup(cell).plain for cell in column] for column in columns]
    first, *rest = (f"| {' | '.join(line)} |" for line in zip(*plain, strict=True))
    return "\n".join([first, f"|{'---|' * len(plain)}", *rest])


def pair(values: Sequence[float | None], form: str, scale: float = 1.0) -> str:
    """Numbers side by side, such as "0.45 / 1.30"; None is left out."""
    return " / ".join(f"{value * scale:{form}}" for value in values if value is not None)
