"""`rnnc check`: the compiled kernels of cells against autograd of their equations."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Annotated

import torch
import typer
from rich.table import Table

from ..define import Cell
from ..errors import RnncError
from ..runtime.cuda.driver.device import device_limits
from ..verify.check_gpu import PlanCheck, check_gpu
from ..verify.findings import inspect
from .console import fail, inspection_report, print_error, print_lines, print_table
from .find import find_cells
from .load import BrokenCell
from .options import CELL, Device, need_gpu


def check_command(
    cell: Annotated[
        list[str], typer.Argument(help=f"{CELL} A file alone: all of its cells.", metavar="CELL…")
    ],
    seed: Annotated[
        int | None,
        typer.Option(help="The seed of the random inputs; another one each time by default."),
    ] = None,
    device: Annotated[
        Device, typer.Option(help="Where the kernels run; on a GPU, those of every plan that fits.")
    ] = Device.CPU,
) -> None:
    """Check the compiled kernels of cells.

    Outputs and gradients are compared with autograd of the plain equations in float64; one step
    from extreme pre-activations must stay finite in float32 wherever it does in float64. On a GPU
    the largest head of each kind of plan and an odd one are run, forward and backward, in float32
    and bfloat16, alternating plans in float64 too: an error may be three times that of the plain
    loop in the same dtype. The exit code is 1 if anything is wrong.
    """
    drawn = random.randrange(2**31) if seed is None else seed
    if device is Device.CUDA:
        try:
            need_gpu(f"rnnc check {' '.join(cell)}")
        except RnncError as error:
            fail(error)
    run = _on_gpu if device is Device.CUDA else _on_cpu
    wrong = False
    for word in cell:
        try:
            for each in find_cells(word):
                wrong |= not _passes(each, drawn, run)
        except RnncError as error:
            print_error(error)
            wrong = True
    if wrong:
        raise typer.Exit(1)


def _passes(cell: Cell | BrokenCell, seed: int, run: Callable[[Cell, int], bool]) -> bool:
    """Whether a cell is right; what was found is printed."""
    try:
        if isinstance(cell, BrokenCell):
            raise cell.error
        return run(cell, seed)
    except RnncError as error:
        print_error(error)
        return False


def _on_cpu(cell: Cell, seed: int) -> bool:
    found = inspect(cell, seed)
    inspection_report(found)
    return not found.failures


def _on_gpu(cell: Cell, seed: int) -> bool:
    limits = device_limits(torch.cuda.current_device())
    print_lines(f"{cell.name} on {limits.name}, seed {seed}")
    rows = list(check_gpu(cell, limits, seed))
    print_table(_table(rows))
    failures = [row for row in rows if row.failure]
    for row in failures:
        print_lines(f"  failed: {_size(row)}: {row.failure}")
    print_lines("  failed" if failures else "  passed")
    return not failures


def _table(rows: list[PlanCheck]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("  plan", "nearest to its bound"):
        table.add_column(column)
    for column in ("error", "allowed"):
        table.add_column(column, justify="right")
    for row in rows:
        error, bound = (f"{row.error:.1e}", f"{row.bound:.1e}") if row.worst else ("-", "-")
        style = "red" if row.failure else ""
        table.add_row(f"  {_size(row)}", row.worst, error, bound, style=style)
    return table


def _size(row: PlanCheck) -> str:
    return f"{row.variant}, {row.dtype}, {row.heads} x {row.dim}"
