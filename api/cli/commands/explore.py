"""`rnnc explore`: a local page where a cell is typed, and its kernels and plan follow."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import CELL, cell_words


def explore_command(
    cell: Annotated[str, typer.Argument(help=CELL, autocompletion=cell_words)] = "lstm",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 finds a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Open a page where you type a cell and see its equations, gradient, kernels and plan.

    It needs no GPU and no compiler. The page runs what is typed, with your rights. Only the
    browser that opens the printed link reaches it. A file runs after a click.
    """
    from ..explore import open_explorer

    open_explorer(cell, port, browser)
