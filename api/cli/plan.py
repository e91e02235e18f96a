"""`rnnc plan`: which kernels a cell gets on a GPU, what they cost, and what stands in the way."""

from __future__ import annotations

from rich.table import Table

from ..codegen.cuda.limits import Limits, limits_of
from ..codegen.cuda.mixed_plan import CallPlan, MixedPlan
from ..codegen.cuda.planner import plan_for
from ..codegen.plan import VARIANTS
from ..codegen.shape import PlanError, Shape
from ..define import Cell
from ..errors import RnncError
from .console import fail, print_lines, print_table
from .find import find_cell
from .options import (
    Batch,
    CellWord,
    DtypeOption,
    Gpu,
    HeadDim,
    Heads,
    Scalar,
    Variant,
    VariantOption,
)

_MODEL = "(estimates of a model that was fitted on an H200)"


def plan_command(
    cell: CellWord,
    heads: Heads = 1,
    head_dim: HeadDim = 64,
    gpu: Gpu = "H200",
    dtype: DtypeOption = Scalar.BFLOAT16,
    batch: Batch = 16,
    variant: VariantOption = Variant.AUTO,
) -> None:
    """Show the plan of a cell's kernels on a GPU, which need not be here: what fits, what binds.

    Every variant has a line with its estimate, or with what it wants instead; a star marks the one
    that is taken, such as the forward of one and the backward of another.
    """
    try:
        found, limits = find_cell(cell), limits_of(gpu)
        shape = Shape(heads, head_dim, batch, dtype=dtype.value)
        plan = plan_for(found, shape, limits, variant.value)
        print_lines(f"{found.name}, {shape}\n{limits}\n")
        print_table(_table(found, shape, limits, plan))
        print_lines(f"  {_MODEL}\n\n* {plan}")
    except RnncError as error:
        fail(error)


def _table(cell: Cell, shape: Shape, limits: Limits, taken: CallPlan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  estimate")
    for column in ("forward", "backward", f"T = {shape.steps}"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for variant in VARIANTS:
        if variant == "auto":
            continue
        try:
            plan = plan_for(cell, shape, limits, variant)
        except PlanError as error:
            table.add_row(f"  {variant}", "-", "-", "-", f"does not fit: wants {error.wanted}")
            continue
        binds = f"binds: {plan.binding}" if plan.binding else "fits"
        table.add_row(*_estimate(plan, taken, shape.steps), binds)
    if isinstance(taken, MixedPlan):
        table.add_row(*_estimate(taken, taken, shape.steps), "each direction of its own plan")
    return table


def _estimate(plan: CallPlan, taken: CallPlan, steps: int) -> tuple[str, ...]:
    """A plan's name, and what it costs."""
    forward, backward = plan.nanoseconds
    return (
        f"{'*' if plan.variant == taken.variant else ' '} {plan.variant}",
        f"{forward} ns a step",
        f"{backward} ns a step",
        f"{(forward + backward) * steps / 1e6:.2f} ms",
    )
