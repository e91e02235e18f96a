"""Output of the command line: coloured on a terminal, plain lines in a pipe."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from ..errors import RnncError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Wider than any table, so that each row is one line in a pipe.
PIPE_WIDTH = 1000


def terminal() -> Console:
    """The current standard output; tests replace it for each command."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def print_lines(text: str) -> None:
    """Print text as it is: no markup, no wrapping."""
    typer.echo(text)


def print_code(text: str, language: str) -> None:
    """Print source code, coloured on a terminal and unchanged in a pipe.

    Args:
        text: the code.
        language: its name for the colours.
    """
    from rich.syntax import Syntax

    console = terminal()
    if console.is_terminal:
        coloured = Syntax("", language, theme="ansi_dark").highlight(text.rstrip("\n"))
        coloured.rstrip()
        console.print(coloured, soft_wrap=True)
    else:
        typer.echo(text.rstrip("\n"))


def print_table(table: Table) -> None:
    """Print a table: fitted to a terminal, one line per row in a pipe."""
    console = terminal()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as text:
        console.print(table)
    for line in text.get().splitlines():
        typer.echo(line.rstrip())


def fail(error: RnncError) -> NoReturn:
    """Print an error, and leave with exit code 1."""
    print_error(error)
    raise typer.Exit(1)


def print_error(error: RnncError) -> None:
    """Print an error, with the line of the file that it names, to the error stream."""
    from rich.console import Console
    from rich.text import Text

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
