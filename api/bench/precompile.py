"""Compiles the kernels of `rnnc bench` before it measures them, on all cores."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ..cellspec.cell import CellSpec
from ..codegen.cuda.kernel_plan import KernelPlan
from ..codegen.cuda.kinds import variants
from ..codegen.cuda.limits import Limits
from ..codegen.cuda.planner import plan_for
from ..codegen.shape import Dtype, PlanError, Shape
from ..errors import RnncError
from ..runtime.cuda.nvrtc import compile_plan
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
    plans = dict.fromkeys(_plans(rows, dtypes, limits, wanted or variants()))
    # The compiler releases Python's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(compile_plan, *each) for each in plans]:
            error = done.exception()
            if error is not None and not isinstance(error, RnncError):
                raise error
    return time.perf_counter() - begin


def _plans(
    rows: Sequence[tuple[Row, CellSpec]],
    dtypes: Sequence[str],
    limits: Limits,
    wanted: Sequence[str],
) -> list[tuple[CellSpec, KernelPlan]]:
    found: list[tuple[CellSpec, KernelPlan]] = []
    for row, cell in rows:
        for name in dtypes:
            dtype: Dtype = name  # type: ignore[assignment]
            shape = Shape(row.heads, row.head_dim, row.batch, row.steps, dtype)
            for variant in wanted:
                try:
                    plan = plan_for(cell, shape, limits, variant)
                except PlanError:
                    continue  # the row reports it
                found += [(cell, plan.forward), (cell, plan.backward)]
    return found
