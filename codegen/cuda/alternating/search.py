"""The search for alternating plans: which kernel multiplies."""

from __future__ import annotations

from dataclasses import replace

from ...request import PlanRequest
from ...shape import Direction, PlanError
from ..cost.estimate import StepEstimate
from ..cost.inputs import CostInputs
from ..stage_tables import stage_tables
from .cost import alternating_start, alternating_step
from .own_product import own_products, staged_products
from .plan import AlternatingPlan
from .staged_plan import StagedAlternatingPlan

# Units per step over all batch rows and heads, less a margin for a few blocks.
_MOST_UNITS = 2**32 - 2**10


def alternating_kernels(request: PlanRequest, direction: Direction) -> tuple[AlternatingPlan, ...]:
    """The alternating plans of one direction; every head dim has one.

    First those with fused steps, then the one with the matrix library's product. A cell that
    reduces units to numbers of a head has the latter alone.

    Args:
        request: what the plans are asked for.
        direction: which of the two directions.

    Raises:
        PlanError: a step has more units than the kernels count in 32 bits.
    """
    cell, shape, limits = request.cell, request.shape, request.limits
    units = shape.batch * shape.heads * shape.head_dim
    if units > _MOST_UNITS:
        raise PlanError(
            f"alternating plan of {cell.name} for {shape}",
            f"{units} units per step: batch * heads * head dim",
            f"at most {_MOST_UNITS}: the kernels count units in 32 bits",
            "scan on parts of the batch",
        )
    inputs = CostInputs.of(cell, shape, limits, request.tf32)

    def estimated(plan: AlternatingPlan) -> AlternatingPlan:
        start = alternating_start(inputs, plan)
        return replace(plan, estimate=StepEstimate.of(alternating_step(inputs, plan), start))

    library = AlternatingPlan(
        direction=direction,
        arch=limits.arch,
        dtype=shape.dtype,
        tf32=request.tf32,
        save=request.save,
    )
    tables = stage_tables(inputs.pointwise, direction)
    if tables is None:
        found = own_products(cell, shape, limits)
    else:
        library = StagedAlternatingPlan(
            direction=direction,
            arch=limits.arch,
            dtype=shape.dtype,
            tf32=request.tf32,
            save=request.save,
            first_stages=tables.first_stages,
            by_head=bool(tables.statistics),
        )
        found = staged_products(inputs.pointwise, shape, limits)
    owns = (both[direction] for both in found)
    return (*(estimated(replace(library, own=own)) for own in owns), estimated(library))
