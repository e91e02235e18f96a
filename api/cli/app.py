"""The `rnnc` command: its commands, its version, and what it does with errors."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import RnncError
from .commands.bench import bench_command
from .commands.build import build_command
from .commands.cache import cache_app
from .commands.check import check_command
from .commands.explore import explore_command
from .commands.fuzz import fuzz_command
from .commands.limits import limits_command
from .commands.list import list_command
from .commands.plan import plan_command
from .commands.report import report_command
from .commands.show import show_command
from .commands.tune import tune_command
from .console import fail


class _Commands(TyperGroup):
    """The commands; an error of rnnc or of a file is shown without a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; letters that the output's encoding lacks are printed as numbers."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RnncError as error:
            fail(error)
        except OSError as error:
            if isinstance(error, BrokenPipeError):  # whoever reads has enough
                raise
            # A write names no file where the disk is full.
            path, why = str(error.filename or "output"), error.strerror or type(error).__name__
            wanted = "a file or a folder that rnnc may read or write"
            fail(RnncError(path, why, wanted, "another path, or `chmod` and `df` to see why"))


app = typer.Typer(
    cls=_Commands,
    help="The compiler for recurrent cells.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rnnc {version('rnnc')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command("list")(list_command)
app.command("show")(show_command)
app.command("check")(check_command)
app.command("fuzz")(fuzz_command)
app.command("limits")(limits_command)
app.command("plan")(plan_command)
app.command("report")(report_command)
app.command("explore")(explore_command)
app.command("build")(build_command)
app.command("tune")(tune_command)
app.command("bench")(bench_command)
app.add_typer(cache_app, name="cache")
