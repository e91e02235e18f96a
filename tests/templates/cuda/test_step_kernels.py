"""The kernels of a single step, compiled: no spills. No GPU."""

from __future__ import annotations

import os

import pytest
import rnnc
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.cuda.step.plan import StepPlan, fused_rows
from rnnc.runtime.cuda.nvrtc import compile_cuda

ARCHS = ("sm_90a", "sm_80", "sm_100a", "sm_120")
DTYPES = ("bfloat16", "float32", "float64", "float16")
CELLS = rnnc.cells.names()
# Many rows of many gates have more sums than a thread has registers.
SPILL = {("nas_cell", "float64")}


def marks_of(name):
    quick = name == "lstm" or CELLS.index(name) % 8 == 0
    return () if quick and name != "nas_cell" else pytest.mark.slow


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", [pytest.param(n, marks=marks_of(n)) for n in CELLS])
def test_every_kernel_compiles_without_spills(name):
    cell, turn = rnnc.cells.get(name), CELLS.index(name)
    slow = os.environ.get("RNNC_SLOW") or name == "lstm"
    dtypes = DTYPES if slow else [DTYPES[turn % len(DTYPES)]]
    for arch, dtype in zip((ARCHS[turn % 4 :] + ARCHS), dtypes, strict=False):
        for direction, rows in (("forward", 0), ("forward", 1), ("forward", 8), ("backward", 0)):
            plan = StepPlan(direction=direction, arch=arch, dtype=dtype, rows=rows)
            reports = compile_cuda(kernel_source(cell, plan), arch).reports
            assert set(reports) == set(plan.kernel_names)
            for report in reports.values():
                assert (report.spills, report.stack) == (0, 0), (name, str(plan), report)


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
    assert fused.grid(3, 6) == (2, 1, 1)
    assert StepPlan(direction="backward", arch="sm_90a", dtype="float32").grid(9, 512)[0] == 36
