"""`rnnc limits`: the largest head that a fused kernel keeps on chip, for each GPU."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from ..codegen.cuda.largest import largest_head_dims
from ..codegen.cuda.limits import PRESETS
from ..errors import RnncError
from .console import fail, print_lines, print_table
from .find import find_cell
from .options import CELL, Heads


class Element(StrEnum):
    """The types that a fused kernel keeps the recurrent matrix in."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


def limits_command(
    cell: Annotated[str, typer.Option(help=CELL)] = "lstm",
    dtype: Annotated[Element, typer.Option(help="The type of R.")] = Element.BFLOAT16,
    heads: Heads = 1,
) -> None:
    """Show the largest head dim of each kind of fused plan of a cell, on each GPU.

    They are the sizes that `rnnc plan` finds. Batch does not matter: what does not fit takes turns.
    A larger head runs alternating; a grid plan by name streams what the chip cannot hold.
    """
    try:
        found = find_cell(cell)
        largest = [largest_head_dims(found, limits, dtype.value, heads) for limits in PRESETS]
    except RnncError as error:
        fail(error)
    print_lines(f"{found.name}, {dtype.value}, heads x units: the largest head with R on chip\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("GPU", "arch"):
        table.add_column(column)
    for column in ("SMs", "block", "cluster", "grid"):
        table.add_column(column, justify="right")
    for each in largest:
        dims = (each.block, each.cluster, each.grid)
        limits = each.limits
        table.add_row(
            limits.name,
            limits.arch,
            str(limits.multiprocessors),
            *(f"{heads} x {dim}" if dim else "-" for dim in dims),
        )
    print_table(table)
