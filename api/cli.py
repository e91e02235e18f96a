"""The `rnnc` command: reads its arguments, hands on to the stages, and shows what they give."""

from __future__ import annotations

import random
import sys
from contextlib import redirect_stdout
from importlib import metadata
from typing import Annotated

import typer

from . import cells
from .cell import Cell
from .cellspec.errors import CellError, RnncError
from .cli_bench import bench_command
from .cli_build import build_command
from .cli_find import find_cells
from .cli_fuzz import fuzz_command
from .cli_limits import limits_command
from .cli_load import BrokenCell
from .cli_options import CELL
from .cli_plan import plan_command
from .cli_show import show_command
from .cli_text import inspection_report, print_cells, print_error, print_lines
from .cli_tune import tune_command
from .codegen.derive import derive
from .runtime.inspect import inspect

app = typer.Typer(
    help="The compiler for recurrent cells.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rnnc {metadata.version('rnnc')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command("list")
def list_command() -> None:
    """List the cells: their gates, states, params and recurrence, and operations a unit."""
    known, broken = [], []
    with redirect_stdout(sys.stderr):  # other packages' modules may print
        for name in cells.names():
            try:
                known.append(derive(cells.get(name)))
            except RnncError as error:
                broken.append((name, error))
    print_cells(known)
    for name, why in broken:
        print_lines(f"{name}: {why.found if isinstance(why, CellError) else why}")


@app.command("check")
def check_command(
    cell: Annotated[
        list[str], typer.Argument(help=f"{CELL} A file alone: all of its cells.", metavar="CELL…")
    ],
    seed: Annotated[
        int | None,
        typer.Option(help="The seed of the random inputs; another one each time by default."),
    ] = None,
) -> None:
    """Check the compiled kernels of cells.

    Outputs and gradients are compared with autograd of the plain equations in float64; one step
    from extreme pre-activations must stay finite in float32 wherever it does in float64. The exit
    code is 1 if anything is wrong.
    """
    drawn = random.randrange(2**31) if seed is None else seed
    wrong = False
    for word in cell:
        try:
            for each in find_cells(word):
                wrong |= not _passes(each, drawn)
        except RnncError as error:
            print_error(error)
            wrong = True
    if wrong:
        raise typer.Exit(1)


def _passes(cell: Cell | BrokenCell, seed: int) -> bool:
    """Whether a cell is right; what was found is printed."""
    try:
        if isinstance(cell, BrokenCell):
            raise cell.error
        found = inspect(cell, seed)
    except RnncError as error:
        print_error(error)
        return False
    inspection_report(found)
    return not found.failures


app.command("show")(show_command)
app.command("plan")(plan_command)
app.command("build")(build_command)
app.command("tune")(tune_command)
app.command("limits")(limits_command)
app.command("bench")(bench_command)
app.command("fuzz")(fuzz_command)
