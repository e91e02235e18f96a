"""Compiles into the cache what tests will ask for: a script, run many times at once.

Reads a JSON object: the `limits` of the GPU, and `jobs`, each [cell, variant, dtype, head dim,
batch rows of a block or 0 for any, save, sizes], where sizes are pairs of heads and batch.
"""

from __future__ import annotations

import json
import sys

import rnnc
from rnnc.codegen.cuda.block import search as block
from rnnc.codegen.cuda.limits import Limits
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import PlanError, Shape
from rnnc.runtime.cuda.nvrtc import compile_plan


def main() -> None:
    given = json.load(sys.stdin)
    fields = given["limits"]
    limits = Limits(**{**fields, "capability": tuple(fields["capability"])})
    rows_of_all = block.ROWS
    for name, variant, dtype, head_dim, rows, save, sizes in given["jobs"]:
        block.ROWS = (rows,) if rows else rows_of_all
        plan_for.cache_clear()
        cell = rnnc.cells.get(name)
        for heads, batch in sizes:
            shape = Shape(heads, head_dim, batch, dtype=dtype)
            try:
                plan = plan_for(cell, shape, limits, variant, save=save)
            except PlanError:
                continue  # the test skips, and says why
            for kernel in (plan.forward, plan.backward):
                compile_plan(cell, kernel)


main()
