"""`rnnc report`: a page that shows a cell, its gradient, its plan and its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...codegen.shape import Shape
from ..options import (
    CELL,
    Batch,
    DtypeOption,
    Gpu,
    HeadDim,
    Heads,
    Scalar,
    VariantOption,
    cell_words,
)

Cells = Annotated[
    list[str],
    typer.Argument(help=f"{CELL} Two cells are shown side by side.", autocompletion=cell_words),
]


def report_command(
    cell: Cells,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The HTML file.", show_default="CELL.html"),
    ] = None,
    heads: Heads = 1,
    head_dim: HeadDim = 64,
    gpu: Gpu = "H200",
    dtype: DtypeOption = Scalar.BFLOAT16,
    batch: Batch = 16,
    variant: VariantOption = "auto",
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure times and errors on this machine's GPU.")
    ] = False,
) -> None:
    """Write a page about a cell: equations, plan, time, limits, code. No GPU is needed.

    The page is one file that needs no network. It shows the equations, what the forward keeps for
    the backward, the plan with its alternatives, the estimated time of a step, and which lines of
    the generated code each term of the equations became.
    """
    if len(cell) > 2:
        raise typer.BadParameter("at most two cells", param_hint="CELL")
    from ..report import write_report

    shape = Shape(heads, head_dim, batch, dtype=dtype.value)
    write_report(cell, output, shape, gpu, variant, measure)
