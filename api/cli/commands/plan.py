"""`rnnc plan`: which kernels a cell gets on a GPU, what they cost, and which limits bind."""

from __future__ import annotations

from typing import Annotated

import typer

from ...codegen.shape import Shape
from ..options import (
    Batch,
    CellWord,
    DtypeOption,
    Features,
    Gpu,
    HeadDim,
    Heads,
    Plot,
    Scalar,
    Steps,
    VariantOption,
)


def plan_command(
    cell: CellWord,
    heads: Heads = 1,
    head_dim: HeadDim = 64,
    gpu: Gpu = "H200",
    dtype: DtypeOption = Scalar.BFLOAT16,
    batch: Batch = 16,
    variant: VariantOption = "auto",
    features: Features = None,
    layers: Annotated[
        int, typer.Option(min=1, help="Layers of a module: how they run, at once or in turn.")
    ] = 1,
    bidirectional: Annotated[
        bool, typer.Option("--bidirectional", help="Both directions of time: how they run.")
    ] = False,
    steps: Steps = 1024,
    plot: Plot = None,
) -> None:
    """Show the plan of a cell's kernels on a GPU: what fits and which limit binds.

    No GPU is needed. Each kind of plan has a line with its estimate, or with what it would need. A
    star marks the plan that is taken; forward and backward may be of different kinds. --features
    asks for the plan of a single step, and --layers for the order of a module's layers.
    """
    from ..plan import print_plan

    shape = Shape(heads, head_dim, batch, steps, dtype=dtype.value)
    print_plan(cell, shape, gpu, variant, features, plot)
    if layers > 1 or bidirectional:
        from ..console import print_lines
        from ..find import find_cell
        from ..layers import layers_text

        found = find_cell(cell)
        print_lines(f"\n{layers_text(found, shape, layers, bidirectional, variant, gpu)}")
