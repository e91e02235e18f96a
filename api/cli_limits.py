"""`rnnc limits`: the largest head dim that a fused kernel keeps on chip, for each GPU."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from .cellspec.errors import RnncError
from .cli_find import find_cell
from .cli_text import fail
from .codegen.placement import LargestHeadDims, largest_head_dims


class Element(StrEnum):
    """The types that a fused kernel keeps the recurrent matrix in."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


def limits_command(
    cell: Annotated[
        str | None,
        typer.Option(help="A cell, as `rnnc show` takes it, or a number of gates; 1, 3 and 4."),
    ] = None,
    dtype: Annotated[Element, typer.Option(help="The type of R.")] = Element.BFLOAT16,
) -> None:
    """Show the largest head dim of a fused kernel on each GPU, for one head and 8 batch rows."""
    try:
        gates: tuple[int, ...] = (1, 3, 4)
        title = "gates"
        if cell is not None and cell.isdecimal():
            gates = (int(cell),)
        elif cell is not None:
            found = find_cell(cell)
            # A gate without a dense recurrent matrix takes no room on chip.
            gates, title = (len(found.dense_pairs),), f"gates ({found.name})"
        _print(largest_head_dims(gates, dtype.value), title)
    except RnncError as error:
        fail(error)


def _print(dims: LargestHeadDims, title: str) -> None:
    table = Table(title=f"Largest head dim, {dims.dtype}, R on chip")
    table.add_column("GPU")
    table.add_column("arch")
    table.add_column("SMs", justify="right")
    for gates in dims.gates:
        heading = f"{gates} {title if gates != 1 else title.replace('gates', 'gate', 1)}"
        table.add_column(heading, justify="right")
    for limits, placements in dims.rows:
        table.add_row(
            limits.name,
            limits.arch,
            str(limits.multiprocessors),
            *(str(placement.head_dim) if placement else "-" for placement in placements),
        )
    Console().print(table)
