"""How the command line shows things: colours on a terminal, plain lines in a pipe."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ..cellspec.cell import CellSpec, Pair
from ..codegen.derive import Pointwise
from ..errors import RnncError
from ..verify.findings import TOLERANCE, Comparison, Inspection

# Wider than any table: in a pipe a row is a line.
_PIPE_WIDTH = 1000
# Less of a paper's name tells nothing.
_LEAST_PAPER = 16


def _console() -> Console:
    # Made for each call: a test gives each command an output of its own.
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def print_lines(text: str) -> None:
    """Print text as it is: no markup, no wrapping."""
    typer.echo(text)


def print_code(text: str, language: str) -> None:
    """Print text, coloured on a terminal and as it is in a pipe.

    Args:
        text: the code.
        language: its name for the colours.
    """
    console = _console()
    if console.is_terminal:
        coloured = Syntax("", language, theme="ansi_dark").highlight(text.rstrip("\n"))
        coloured.rstrip()
        console.print(coloured, soft_wrap=True)
    else:
        typer.echo(text.rstrip("\n"))


def print_table(table: Table) -> None:
    """Print a table: fitted to a terminal, each row one line in a pipe."""
    console = _console()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as text:
        console.print(table)
    for line in text.get().splitlines():
        typer.echo(line.rstrip())


def cell_text(cell: CellSpec) -> str:
    """The equations of a cell, and the values that they start from.

    Args:
        cell: the cell.
    """
    values = [
        *(f"{c.name} = {c.value:g}" for c in cell.constants),
        *(f"{p.name} is learned, a value a unit, and starts at {p.init:g}" for p in cell.params),
        *(f"{s.name} starts at {s.init:g}" for s in cell.states if s.init),
    ]
    return "\n".join([str(cell), *(f"  {value}" for value in values)])


def print_cells(pointwises: Sequence[Pointwise]) -> None:
    """Print the table of `rnnc list`; a narrow terminal cuts the papers, or leaves them out.

    Args:
        pointwises: the derived cells, one row each.
    """
    console = _console()
    wide = console.options.update(width=_PIPE_WIDTH)
    room = console.width - console.measure(_cell_table(pointwises, 0), options=wide).maximum
    print_table(_cell_table(pointwises, max(room, 0)))


def _cell_table(pointwises: Sequence[Pointwise], room: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "gates", "states", "params", "recurrent"):
        table.add_column(column, no_wrap=column == "name")
    table.add_column("forward + backward", justify="right")
    if room >= _LEAST_PAPER:
        table.add_column("paper", no_wrap=True, overflow="ellipsis", max_width=room - 2)
    for pointwise in pointwises:
        cell = pointwise.cell
        row = [
            f"[cyan]{escape(cell.name)}[/]",
            *(" ".join(d.name for d in ds) for ds in (cell.gates, cell.states, cell.params)),
            _recurrence(cell),
            f"{pointwise.forward.operations} + {pointwise.backward.operations}",
            escape(next(iter(cell.doc.splitlines()), "")),
        ]
        table.add_row(*row[: len(table.columns)])
    return table


def _recurrence(cell: CellSpec) -> str:
    """`dense`, `diagonal` or `none`, with the sources where they are not the output."""
    kinds = [("dense", cell.dense_pairs), ("diagonal", cell.diagonal_pairs)]
    return ", ".join(kind + _sources(cell, pairs) for kind, pairs in kinds if pairs) or "none"


def _sources(cell: CellSpec, pairs: Sequence[Pair]) -> str:
    sources = list(dict.fromkeys(p.source for p in pairs))
    return "" if sources == [cell.states[0].name] else f" from {' '.join(sources)}"


def inspection_report(found: Inspection) -> None:
    """Print what `rnnc check` found out about a cell."""
    console, pointwise = _console(), found.pointwise
    console.print(Text(pointwise.cell.name, "bold cyan"))
    print_table(_comparison_table((*found.outputs, *found.gradients)))
    console.print(
        f"  operations a unit: {pointwise.forward.operations} forward,"
        f" {pointwise.backward.operations} backward"
    )
    console.print(
        f"  kept for the backward: {' '.join(pointwise.saved) or 'nothing'};"
        f" states {' '.join(pointwise.reads) or 'none'}"
    )
    differences = f"not taken: {found.skipped}" if found.skipped else "agree"
    console.print(f"  finite differences: {found.finite_differences or differences}")
    console.print(
        f"  float32 at {found.points} extreme points:"
        f" {len(found.overflows)} values are not finite, though they are in float64"
    )
    if found.undefined:
        console.print(f"  not finite there in float64 either: {' '.join(found.undefined)}")
    for failure in found.failures:
        console.print(Text(f"  failed: {failure}", "red"))
    verdict = Text("  failed", "bold red") if found.failures else Text("  passed", "bold green")
    console.print(verdict.append(f", seed {found.seed}", "default"))


def _comparison_table(rows: Sequence[Comparison]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  against autograd, float64")
    table.add_column("largest", justify="right")
    table.add_column(f"error (at most {TOLERANCE:g})", justify="right")
    for row in rows:
        style = "" if row.ok else "red"
        table.add_row(f"  {row.name}", f"{row.largest:.3g}", f"{row.error:.1e}", style=style)
    return table


def fail(error: RnncError) -> NoReturn:
    """Print an error, and leave with exit code 1."""
    print_error(error)
    raise typer.Exit(1)


def print_error(error: RnncError) -> None:
    """Print an error, with the line of the file that it names, to the error stream."""
    console = Console(stderr=True, highlight=False)
    where = error.where or "cell"
    shown = Text(where, "bold red")
    line = _source_line(where)
    if line:
        shown.append(f"\n{line}", "default")
    console.print(shown.append(f"\n{error.details}", "default"), soft_wrap=True)


def _source_line(where: str) -> str:
    """The line that a place such as `my_cell, my_cell.py:7` names, with its number."""
    place = re.search(r"(?:^|, )([^,]+\.py):(\d+)$", where)
    if not place:
        return ""
    linecache.checkcache(place[1])
    source = linecache.getline(str(Path(place[1])), int(place[2])).rstrip()
    return f"  {place[2]} | {source}" if source else ""
