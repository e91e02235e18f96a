"""`rnnc list`: all cells of the library and of installed packages."""

from __future__ import annotations

from typing import Annotated

import typer


def list_command(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, an object per cell.")] = False,
) -> None:
    """List the cells: gates, states, params, recurrence, and operations per unit and step."""
    from ..list import print_json, print_list

    (print_json if json else print_list)()
