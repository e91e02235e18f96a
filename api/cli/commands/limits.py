"""`rnnc limits`: the largest head whose recurrent matrix stays on chip, for each GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import CellOption, Heads, Plot

if TYPE_CHECKING:
    from ...codegen.cuda.largest import LargestHeadDims


class Element(StrEnum):
    """The types of a recurrent matrix that stays on chip."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


def limits_command(
    cell: CellOption = "lstm",
    dtype: Annotated[Element, typer.Option(help="The type of R.")] = Element.BFLOAT16,
    heads: Heads = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Plot = None,
) -> None:
    """Show the largest head dim of each kind of plan that keeps R on chip, on each GPU.

    `rnnc plan` finds the same sizes. Batch size does not matter: extra rows run in further waves.
    A larger head gets an alternating plan; `--variant grid` runs it too and reads the part of R
    that does not fit on chip again at each step.
    """
    from rich.table import Table

    from ...codegen.cuda.largest import largest_head_dims
    from ...codegen.cuda.limits import PRESETS
    from ..console import print_lines, print_table
    from ..find import find_cell
    from ..picture import Mark, check_picture, write_picture
    from ..progress import track

    check_picture(plot)

    found = find_cell(cell)
    gpus = track(PRESETS, f"planning {found.name} for each GPU", name=lambda each: each.name)
    largest = [largest_head_dims(found, limits, dtype.value, heads) for limits in gpus]
    if as_json:
        command = f"rnnc limits --cell {cell} --dtype {dtype.value} --heads {heads} --json"
        print(_json(found.name, dtype.value, heads, largest, command))
        return
    print_lines(f"{found.name}, {dtype.value}, heads x units: the largest head with R on chip\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("GPU", "arch"):
        table.add_column(column)
    for column in ("SMs", *largest[0].dims):
        table.add_column(column, justify="right")
    for each in largest:
        limits = each.limits
        table.add_row(
            limits.name,
            limits.arch,
            str(limits.multiprocessors),
            *(f"{heads} x {dim}" if dim else "-" for dim in each.dims.values()),
        )
    print_table(table)
    marks = [
        Mark(each.limits.name, kind, dim) for each in largest for kind, dim in each.dims.items()
    ]
    title = f"{found.name}, {dtype.value}: the largest of {heads} heads with R on chip"
    write_picture(plot, title, "units per head", marks)


def _json(
    cell: str, dtype: str, heads: int, largest: Sequence[LargestHeadDims], command: str
) -> str:
    """Return what the table says, with the command and the day."""
    gpus = [
        {
            "name": each.limits.name,
            "arch": each.limits.arch,
            "multiprocessors": each.limits.multiprocessors,
            "largest": dict(each.dims),
        }
        for each in largest
    ]
    head = {"date": date.today().isoformat(), "command": command, "rnnc": version("rnnc")}
    content = head | {"cell": cell, "dtype": dtype, "heads": heads, "gpus": gpus}
    return json.dumps(content, indent=1)
