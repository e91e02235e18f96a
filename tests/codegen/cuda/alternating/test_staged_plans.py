"""Alternating plans of cells with stages: the kernels of a step, and which of them multiply."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.alternating.staged_plan import StagedAlternatingPlan
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import Shape

H200 = limits_of("H200")


def plans_of(cell, dtype="bfloat16", batch=16):
    return plans_of_kind("alternating", cell, Shape(1, 768, batch, dtype=dtype), H200)


def test_a_kernel_for_each_product_of_a_step(staged_cells):
    plan = plan_for(staged_cells.gru_reset_first, Shape(1, 768), H200, "alternating")
    assert isinstance(plan.forward, StagedAlternatingPlan)
    for kernel in (plan.forward, plan.backward):
        name = f"rnnc_{kernel.direction}_step"
        assert kernel.step_names == (name, f"{name}_1")
        assert kernel.first_stages == (0, 1)
        assert set(kernel.step_names) < set(kernel.kernel_names)
    assert "2 kernels of stages per step" in str(plan.forward)


def test_norms_alone_take_one_kernel(staged_cells):
    cell, _ = staged_cells.TWINS["norm_lstm"]
    (plan,) = plans_of(cell)
    for kernel in (plan.forward, plan.backward):
        assert (kernel.first_stages, kernel.by_head, kernel.product) == ((0,), True, "library")


@pytest.mark.parametrize(
    ("dtype", "products"),
    [("bfloat16", {"own", "library"}), ("float32", {"library"}), ("float64", {"library"})],
)
def test_two_byte_elements_have_kernels_that_multiply(dtype, products, staged_cells):
    plans = plans_of(staged_cells.gru_reset_first, dtype)
    assert {plan.forward.product for plan in plans} == products
    for plan in plans:
        assert plan.forward.cut == plan.backward.cut
        if plan.forward.own:
            assert plan.forward.threads == 32 * plan.forward.own.warps
            assert plan.nanoseconds < plans[-1].nanoseconds


def test_the_library_multiplies_where_a_kernel_would_have_nothing_to():
    """All gates are called, and the first kernel of a step has no product."""
    (plan,) = plans_of(rnnc.cells.gru_d)
    assert plan.forward.product == "library"


def test_the_estimate_counts_kernels(staged_cells):
    def estimate(cell, dtype):
        return plan_for(cell, Shape(1, 64, dtype=dtype), H200, "alternating").forward.nanoseconds

    for dtype in ("float32", "bfloat16"):
        one = estimate(rnnc.cells.gru, dtype)
        assert 1.5 * one < estimate(staged_cells.gru_reset_first, dtype) < 2.5 * one


def test_sources_name_the_stages_of_each_kernel(staged_cells):
    cell, _ = staged_cells.TWINS["deep"]
    plan = plan_for(cell, Shape(1, 64), H200, "alternating")
    text = cuda_source(cell, plan).forward
    assert "// Stages 0 to 1 of a step." in text
    assert "staged_forward_step<2, 6>" in text
