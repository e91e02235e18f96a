"""The `rnnc` command: reads its arguments, hands on to the stages, and shows what they give."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import metadata
from typing import Annotated

import typer

from .. import cells
from ..codegen.derive import derive
from ..errors import RnncError
from .bench import bench_command
from .build import build_command
from .check import check_command
from .console import print_cells, print_lines
from .fuzz import fuzz_command
from .limits import limits_command
from .plan import plan_command
from .show import show_command
from .tune import tune_command

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
        print_lines(f"{name}: {why.found}")


app.command("check")(check_command)
app.command("show")(show_command)
app.command("plan")(plan_command)
app.command("build")(build_command)
app.command("tune")(tune_command)
app.command("limits")(limits_command)
app.command("bench")(bench_command)
app.command("fuzz")(fuzz_command)
