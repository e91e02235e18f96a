"""`rnnc cache`: where compiled kernels are kept, how much room they take, and their removal."""

from __future__ import annotations

import typer

from ...runtime.store.files import cache_folder, cache_usage, clear_cache

cache_app = typer.Typer(
    help="Show or clear the folder of compiled kernels and plans.", no_args_is_help=True
)
_MIB = 2**20


@cache_app.command("where")
def where_command() -> None:
    """Print the folder. RNNC_CACHE_DIR sets another one."""
    typer.echo(cache_folder())


@cache_app.command("size")
def size_command() -> None:
    """Print the number of files and the room that they take. RNNC_CACHE_SIZE limits it."""
    usage = cache_usage()
    typer.echo(
        f"{usage.files} files, {usage.bytes / _MIB:.1f} MiB of at most {usage.limit / _MIB:.0f}"
    )


@cache_app.command("clear")
def clear_command() -> None:
    """Remove rnnc's files from the folder. Kernels are compiled again when they are needed."""
    usage = clear_cache()
    typer.echo(f"removed {usage.files} files, {usage.bytes / _MIB:.1f} MiB")
