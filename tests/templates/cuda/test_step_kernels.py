"""The kernels of a single step, compiled: no spills. No GPU."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.cuda.step.gradient_tile import GradientTile
from rnnc.codegen.cuda.step.plan import StepPlan
from rnnc.codegen.cuda.step.search import fused_rows, step_kernels
from rnnc.codegen.cuda.step.tile import best_tile
from rnnc.codegen.request import PlanRequest
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.call.facts import facts_of
from rnnc.runtime.cuda.nvrtc import compile_cuda

from ...one_stage import ONE_STAGE

ARCHS = ("sm_90a", "sm_80", "sm_100a", "sm_120")
DTYPES = ("bfloat16", "float32", "float64", "float16")
SLOW = bool(os.environ.get("RNNC_SLOW"))
# Many rows of many gates have more sums than a thread has registers.
SPILL = {("nas_cell", "float64")}


def marks_of(name):
    # The LSTM, and a cell in each other dtype.
    return () if name == "lstm" or ONE_STAGE.index(name) in (8, 16, 24) else pytest.mark.slow


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", [pytest.param(n, marks=marks_of(n)) for n in ONE_STAGE])
def test_every_kernel_compiles_without_spills(name):
    cell, turn = rnnc.cells.get(name), ONE_STAGE.index(name)
    # In make test each cell in another dtype.
    some = DTYPES[:1] if name == "lstm" else [DTYPES[turn // 8 % len(DTYPES)]]
    dtypes = DTYPES if SLOW else some
    for arch, dtype in zip((ARCHS[turn % 4 :] + ARCHS), dtypes, strict=False):
        for plan in plans_of(cell, arch, dtype):
            reports = compile_cuda(kernel_source(cell, plan), arch).reports
            assert set(reports) == set(plan.kernel_names)
            for report in reports.values():
                # CUDA's sine and cosine reduce large arguments in local memory, and a loop of the
                # backward keeps what it carries there.
                size = 8 if dtype == "float64" else 4
                stack = size * facts_of(cell).kept + (40 if name in ("lru", "s5") else 0)
                assert report.spills == 0, (name, str(plan), report)
                assert report.stack <= stack, (name, str(plan), report)


def plans_of(cell, arch, dtype):
    for direction, rows in (("forward", 0), ("forward", 1), ("forward", 8), ("backward", 0)):
        yield StepPlan(direction=direction, arch=arch, dtype=dtype, rows=rows)
    # The largest tiles; all of them, and lines without alignment, if all cells.
    for batch, units in ((512, 1024), *[(9, 40), (128, 512), (512, 509)] * SLOW):
        shape = Shape(1, units, batch=batch, dtype=dtype)
        request = PlanRequest(cell, shape, limits_of("H200"), tf32=True, features=units)
        for direction in DIRECTIONS:
            plan = replace(step_kernels(request, direction)[0], arch=arch)
            if plan.tile or plan.gradient_tile:
                yield plan


def test_tiles_are_as_large_as_the_work():
    def tile(batch, units, name="lstm", dtype="bfloat16", tf32=True):
        shape = Shape(1, units, batch=batch, dtype=dtype)
        found = best_tile(rnnc.cells.get(name), shape, units, limits_of("H200"), tf32)
        return found and (found.rows, found.units, found.aligned)

    sizes = [(16, 512), (128, 512), (128, 1024), (512, 512), (512, 1024)]
    assert [tile(*size) for size in sizes] == [
        *((16, 8, True), (32, 8, True), (32, 16, True), (64, 16, True), (64, 32, True))
    ]
    assert tile(512, 509) == (64, 16, False)
    assert tile(512, 512, "nas_cell") == (64, 16, True)
    assert tile(8, 512) is None  # dot products
    assert tile(512, 2048) is None  # the library
    assert tile(16, 512, dtype="float64") is tile(16, 512, dtype="float32", tf32=False) is None
    assert tile(16, 512, dtype="float32") == (16, 8, True)


def test_blocks_of_gradients():
    tile = GradientTile.of(rnnc.cells.lstm, "float32", 2, 2, 4)
    assert tile.blocks(heads=3, dim=40, columns=[130, 40]) == (9, 3, 1)
    assert tile.input_blocks(33, heads=3, dim=40, size=130, sources=1) == (6, 2, 1)
    assert tile.input_blocks(33, heads=3, dim=40, size=0, sources=1) == (3, 2, 1)


def test_batch_rows_of_a_block():
    def rows(units, dtype="float32"):
        weights = 8 * units * units  # of an LSTM
        return [fused_rows(batch, weights, dtype) for batch in (1, 2, 3, 5, 8, 16, 32, 33)]

    assert rows(256) == [1, 2, 4, 8, 8, 8, 8, 0]
    assert rows(512, "bfloat16") == [1, 2, 4, 8, 8, 8, 0, 0]
    assert rows(1024) == [1, 2, 4, 8, 8, 0, 0, 0]
    assert rows(2048) == [1, 2, 0, 0, 0, 0, 0, 0]


def test_blocks_of_a_launch():
    fused = StepPlan(direction="forward", arch="sm_90a", dtype="float32", rows=4)
    assert fused.grid(3, 1, 6) == (2, 1, 1)
    assert StepPlan(direction="backward", arch="sm_90a", dtype="float32").grid(9, 2, 256)[0] == 36
