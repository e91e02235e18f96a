"""Kernels of values after resets that differ between steps take the bytes that the plan counts."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.cuda import nvrtc

LIMITS = limits_of("H200")


def plan_of(cell, kind, dim, dtype="bfloat16", save="gates", most=LIMITS.shared_per_block):
    plan = plan_for(cell, Shape(2, dim, dtype=dtype), LIMITS, kind, save=save)
    return plan.in_time(False, masked=True).with_stored_resets(cell, most)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("name", "kind", "dim", "dtype", "save"),
    [
        ("lstm", "block", 64, "bfloat16", "gates"),
        ("slstm", "block", 24, "float32", "states"),
        ("lstm", "cluster", 256, "float16", "states"),
        ("slstm", "cluster", 72, "float32", "gates"),
        ("elman", "cluster", 100, "bfloat16", "gates"),
        ("lstm", "grid", 768, "bfloat16", "gates"),
    ],
)
def test_kernels_take_the_bytes_that_the_plan_counts(name, kind, dim, dtype, save):
    cell = rnnc.cells.get(name)
    plan = plan_of(cell, kind, dim, dtype, save)
    for unit in cuda_source(cell, plan).units:
        assert unit.plan.resets == "ahead"
        assert "#define RNNC_RESETS_AHEAD" in unit.code
        nvrtc.ptx_of(unit, "sm_90a")  # the sizes are compared by static_assert


@pytest.mark.parametrize("kind", ["block", "cluster"])
def test_without_room_a_kernel_loads_them_where_rows_restart(kind):
    cell = rnnc.cells.slstm
    plan = plan_of(cell, kind, 64)
    for direction in DIRECTIONS:
        own = getattr(plan, direction)
        assert own.launch_shape.shared == own.shared + own.reset_shared > own.shared
        least = getattr(plan_of(cell, kind, 64, most=own.launch_shape.shared), direction)
        less = getattr(plan_of(cell, kind, 64, most=own.launch_shape.shared - 1), direction)
        assert least == own
        assert less.resets == "late"
        assert less.launch_shape.shared == own.shared


def test_an_alternating_kernel_loads_them_where_rows_restart():
    plan = plan_of(rnnc.cells.lstm, "alternating", 768)
    assert plan.forward.resets == "late"
    assert plan.backward.resets == "late"
