"""`rnnc plan`: which kernels a cell gets on a GPU, what they cost, and which limits bind."""

from __future__ import annotations

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
    plot: Plot = None,
) -> None:
    """Show the plan of a cell's kernels on a GPU: what fits and which limit binds.

    No GPU is needed. Each kind of plan has a line with its estimate, or with what it would need. A
    star marks the plan that is taken; forward and backward may be of different kinds. --features
    asks for the plan of a single step.
    """
    from ..plan import print_plan

    shape = Shape(heads, head_dim, batch, dtype=dtype.value)
    print_plan(cell, shape, gpu, variant, features, plot)
