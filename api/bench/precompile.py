"""Compiles the kernels of `rnnc bench` before it measures them, on all cores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ..cellspec.cell import CellSpec
from ..codegen.cuda.kernel_plan import KernelPlan
from ..codegen.cuda.kinds import variants
from ..codegen.cuda.limits import Limits
from ..codegen.cuda.planner import plan_for
from ..codegen.shape import Dtype, PlanError, Shape
from .compile_pool import CompilePool
from .rows import Row


def compile_ahead(
    rows: Sequence[tuple[Row, CellSpec]],
    dtypes: Sequence[str],
    limits: Limits,
    wanted: Sequence[str] = (),
) -> float:
    """Compile the kernels of all rows into the cache. A failure appears again when the row runs.

    Args:
        rows: rows with their cells.
        dtypes: names of dtypes.
        limits: the GPU.
        wanted: kinds of plans, and "auto"; none for all.

    Returns:
        The seconds that it took.
    """
    begin = time.perf_counter()
    with CompilePool() as pool:
        for cell, plan in _plans(rows, dtypes, limits, wanted or variants()):
            pool.submit(cell, [plan])
        pool.wait_for_all()
    return time.perf_counter() - begin


def _plans(
    rows: Sequence[tuple[Row, CellSpec]],
    dtypes: Sequence[str],
    limits: Limits,
    wanted: Sequence[str],
) -> Iterator[tuple[CellSpec, KernelPlan]]:
    for row, cell in rows:
        for name in dtypes:
            dtype: Dtype = name  # type: ignore[assignment]
            shape = Shape(row.heads, row.head_dim, row.batch, row.steps, dtype)
            for variant in wanted:
                try:
                    plan = plan_for(cell, shape, limits, variant)
                except PlanError:
                    continue  # the row reports it
                yield cell, plan.forward
                yield cell, plan.backward
