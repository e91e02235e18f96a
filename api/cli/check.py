"""The checks of `rnnc check` on each cell, and their result as text."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.table import Table
from rich.text import Text

from ..cellspec.noise.mean import notes_on_draws
from ..cellspec.stages.words import exchanges_in_words
from ..codegen.shape import ELEMENT_BYTES, counted
from ..define import Cell
from ..errors import RnncError
from ..load import BrokenCell
from ..runtime.cuda.driver.device import device_limits
from ..verify.check_gpu import PlanCheck, check_gpu
from ..verify.findings import TOLERANCE, Comparison, Inspection, inspect
from .console import print_error, print_lines, print_table, terminal
from .find import find_cells
from .gpu import need_gpu
from .picture import Mark, check_picture, write_picture
from .progress import track


def check_cells(
    words: list[str], seed: int | None, device: str, picture: Path | None = None
) -> bool:
    """Check cells and print what was found.

    Args:
        words: cells as `rnnc show` takes them, and files.
        seed: of the random inputs; None for a new one.
        device: "cpu" or "cuda".
        picture: a file for a picture of all errors.

    Returns:
        Whether all of them are right.

    Raises:
        NoGpuError: the device is "cuda", and there is no GPU.
    """
    check_picture(picture)
    drawn = random.randrange(2**31) if seed is None else seed
    if device == "cuda":
        command = f"rnnc check {' '.join(words)}"
        need_gpu(f"{command} --device cuda", f"{command} --device cpu")
    run = _on_gpu if device == "cuda" else _on_cpu
    found = [each for word in words for each in _found(word)]
    what = f"checking {counted(len(found), 'cell')}"
    cells = track(found, what, name=lambda each: getattr(each, "name", ""))
    right, marks = True, list[Mark]()
    for each in cells:
        right &= _passes(each, drawn, run, marks)
    title = f"rnnc check, seed {drawn}"
    write_picture(picture, title, "error as a share of the largest value", marks)
    return right


def _found(word: str) -> Sequence[Cell | BrokenCell | RnncError]:
    """The cells that a word names, or why there are none."""
    try:
        return find_cells(word)
    except RnncError as error:
        return [error]


def _passes(
    cell: Cell | BrokenCell | RnncError,
    seed: int,
    run: Callable[[Cell, int, list[Mark]], bool],
    marks: list[Mark],
) -> bool:
    """Return True if a cell is right; what was found is printed, and its errors are added."""
    try:
        if isinstance(cell, RnncError):
            raise cell
        if isinstance(cell, BrokenCell):
            raise cell.error
        return run(cell, seed, marks)
    except RnncError as error:
        print_error(error)
        return False


def _on_cpu(cell: Cell, seed: int, marks: list[Mark]) -> bool:
    found = inspect(cell, seed)
    _print_inspection(found)
    for row in (*found.outputs, *found.gradients):
        marks += _marks(f"{cell.name}: {row.name}", row.error, TOLERANCE)
    return not found.failures


def _print_inspection(found: Inspection) -> None:
    console, pointwise = terminal(), found.pointwise
    drawn = pointwise.cell.drawn
    console.print(Text(pointwise.cell.name, "bold cyan"))
    print_table(_comparison_table((*found.outputs, *found.gradients)))
    console.print(
        f"  operations per unit: {pointwise.forward.operations} forward,"
        f" {pointwise.backward.operations} backward"
    )
    console.print(
        f"  saved for the backward: {' '.join(pointwise.saved) or 'nothing'};"
        f" states {' '.join(pointwise.reads) or 'none'}"
        + (f"; drawn {' '.join(drawn)}" if drawn else "")
    )
    console.print(f"  per step {exchanges_in_words(pointwise.cell)}", highlight=False)
    one, drawn_each_step = ELEMENT_BYTES["float32"], pointwise.drawn
    console.print(
        f"  kept until then: {one * pointwise.kept_numbers} bytes per step and unit in float32"
        + (f", {one * len(drawn_each_step)} of them drawn" if drawn_each_step else "")
    )
    console.print(f"  recurrence: {pointwise.cell.recurrence}")
    console.print(f"  finite differences: {found.finite_differences or 'agree'}")
    console.print(
        f"  float32 at {found.points} extreme points:"
        f" {len(found.overflows)} values are not finite, though they are in float64"
    )
    for note in notes_on_draws(pointwise.cell):
        console.print(f"  {note}", markup=False, highlight=False)
    if found.undefined:
        console.print(f"  not finite there in float64 either: {' '.join(found.undefined)}")
    for failure in found.failures:
        console.print(Text(f"  failed: {failure}", "red"))
    verdict = Text("  failed", "bold red") if found.failures else Text("  passed", "bold green")
    console.print(verdict.append(f", seed {found.seed}", "default"))


def _comparison_table(rows: Sequence[Comparison]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  against autograd, float64")
    table.add_column("largest", justify="right")
    table.add_column(f"error (at most {TOLERANCE:g})", justify="right")
    for row in rows:
        style = "" if row.ok else "red"
        table.add_row(f"  {row.name}", f"{row.largest:.3g}", f"{row.error:.1e}", style=style)
    return table


def _marks(row: str, error: float, bound: float) -> list[Mark]:
    """An error of zero stands at the left, where a rounding of float64 is."""
    return [Mark(row, "error", max(error, 1e-17), ours=True), Mark(row, "allowed", bound)]


def _on_gpu(cell: Cell, seed: int, marks: list[Mark]) -> bool:
    limits = device_limits(torch.cuda.current_device())
    print_lines(f"{cell.name} on {limits.name}, seed {seed}")
    rows = list(check_gpu(cell, limits, seed))
    print_table(_table(rows))
    for row in rows:
        if row.worst:
            marks += _marks(f"{cell.name}: {_size(row)}", row.error, row.bound)
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
