"""`rnnc tune`: times the plans with the lowest estimates on this machine's GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from ...codegen.shape import Shape
from ..options import (
    Batch,
    CellWord,
    DtypeOption,
    HeadDim,
    Heads,
    Plot,
    SaveOption,
    SaveWord,
    Scalar,
    Steps,
)


def tune_command(
    cell: CellWord,
    heads: Heads = 1,
    head_dim: HeadDim = 64,
    dtype: DtypeOption = Scalar.BFLOAT16,
    batch: Batch = 16,
    steps: Steps = 1024,
    save: SaveOption = SaveWord.GATES,
    candidates: Annotated[
        int | None,
        typer.Option(help="How many plans are timed, those with the lowest estimates first."),
    ] = None,
    plot: Plot = None,
) -> None:
    """Time the best few plans of a cell's kernels on this GPU, and remember the fastest.

    Forward and backward are timed separately; a star marks the fastest of each. From then on
    variant="auto" uses it for calls of that size: of any number of steps, or without R from so many
    on, as plans are chosen. RNNC_TUNE=1 does the same for every size that is
    used. The result is kept in the folder of the compiled kernels.
    """
    from ..tune import print_tuning

    shape = Shape(heads, head_dim, batch, steps, dtype=dtype.value)
    print_tuning(cell, shape, save.value, candidates, plot)
