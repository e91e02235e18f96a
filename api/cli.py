"""The `rnnc` command: reads its arguments, hands on to the stages, and shows what they give."""

from __future__ import annotations

import random
from enum import StrEnum
from importlib import metadata
from typing import Annotated

import typer

from . import cells
from .cell import Cell
from .cellspec.errors import RnncError
from .cli_find import find_cell, find_cells
from .cli_limits import limits_command
from .cli_text import (
    cell_text,
    fail,
    inspection_report,
    print_cells,
    print_code,
    print_lines,
)
from .codegen.derive import derive
from .codegen.plan import Dtype
from .runtime.inspect import inspect

app = typer.Typer(
    help="The compiler for recurrent cells.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("limits")(limits_command)


class What(StrEnum):
    """The sides of a cell that `rnnc show` shows."""

    EQUATIONS = "equations"
    BACKWARD = "backward"
    LATEX = "latex"
    CPP = "cpp"
    JSON = "json"


class Scalar(StrEnum):
    """The scalar types that kernels are written in."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


_CELL = "A cell's name, as `rnnc list` has it, or a file and a name in it: my_cell.py:my_cell."
_BACKWARD = (
    "# d_x is the gradient of x, s_next a state's new value; the matrix products come on top"
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
    try:
        known = [cells.get(name) for name in cells.names()]
        print_cells([derive(cell) for cell in known])
    except RnncError as error:
        fail(error)


@app.command("show")
def show_command(
    cell: Annotated[str, typer.Argument(help=_CELL)],
    what: Annotated[What, typer.Option(help="Which side of the cell to show.")] = What.EQUATIONS,
    dtype: Annotated[
        Scalar | None, typer.Option(help="The scalar type of --what cpp; float32 by default.")
    ] = None,
) -> None:
    """Show a cell: its equations, its derived backward, LaTeX, generated C++ or JSON."""
    if dtype and what is not What.CPP:
        raise typer.BadParameter(f"--what {what} has no scalar type", param_hint="--dtype")
    try:
        found = find_cell(cell)
        scalar: Dtype = "float64" if dtype is Scalar.FLOAT64 else "float32"
        match what:
            case What.EQUATIONS:
                print_lines(cell_text(found))
            case What.BACKWARD:
                print_lines("\n".join([_BACKWARD, *found.backward_equations()]))
            case What.LATEX:
                print_code(found.latex(), "latex")
            case What.CPP:
                print_code(found.cpp(scalar).code, "cpp")
            case What.JSON:
                print_code(found.to_json(), "json")
    except RnncError as error:
        fail(error)


@app.command("check")
def check_command(
    cell: Annotated[
        list[str], typer.Argument(help=f"{_CELL} A file alone: all of its cells.", metavar="CELL…")
    ],
    seed: Annotated[
        int | None, typer.Option(help="Of the random inputs; drawn anew each time by default.")
    ] = None,
) -> None:
    """Check the compiled kernels of cells.

    Outputs and gradients are compared with autograd of the plain equations in float64; one step
    from extreme pre-activations must stay finite in float32 wherever it does in float64. The exit
    code is 1 if anything is wrong.
    """
    try:
        found: list[Cell] = [c for target in cell for c in find_cells(target)]
        drawn = random.randrange(2**31) if seed is None else seed
        inspections = []
        for each in found:
            inspections.append(inspect(each, drawn))
            inspection_report(inspections[-1])
    except RnncError as error:
        fail(error)
    if any(i.failures for i in inspections):
        raise typer.Exit(1)
