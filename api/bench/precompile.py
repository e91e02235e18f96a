"""Compiles the kernels of `rnnc bench` before it measures them, on all cores."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ..cellspec.cell import CellSpec
from ..codegen.cuda.directions import joined
from ..codegen.cuda.limits import Limits
from ..codegen.cuda.planner import plan_for
from ..codegen.plan import Plan
from ..codegen.shape import PlanError, Shape
from ..runtime.cuda.products.multiplier import rounds
from .compile_pool import CompilePool
from .inputs import DTYPES


def compile_shapes(
    shapes: Iterable[tuple[CellSpec, Shape, bool]],
    limits: Limits,
    wanted: Sequence[str] = ("auto",),
) -> float:
    """Compile the kernels of cells and shapes into the cache, for torch's flags of precision.

    A shape comes with whether it runs in both directions of time. Gives the seconds that it took.
    """
    begin = time.perf_counter()
    with CompilePool() as pool:
        for cell, shape, both in shapes:
            tf32 = rounds(DTYPES[shape.dtype], None)
            for variant in wanted:
                with suppress(PlanError):  # whatever needs the plan reports it
                    plan = plan_for(cell, shape, limits, variant, tf32=tf32)
                    for each in _of_both(cell, shape, limits, plan) if both else (plan,):
                        pool.submit(cell, [each.forward, each.backward])
        pool.wait_for_all()
    return time.perf_counter() - begin


def _of_both(cell: CellSpec, shape: Shape, limits: Limits, plan: Plan) -> Sequence[Plan]:
    """The plans of both directions of a layer, of which one has a plan."""
    with suppress(PlanError):
        twice = replace(shape, heads=2 * shape.heads)
        both = plan_for(cell, twice, limits, tf32=plan.tf32)
        if joined(plan, both):
            return (both.in_time("half"),)
    return plan, plan.in_time(True)
