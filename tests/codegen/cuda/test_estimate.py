"""The cost model: estimates add up by parts, and other GPUs use the H200's constants."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from rnnc.codegen.cuda.cost.estimate import StepEstimate
from rnnc.codegen.cuda.cost.fitted import H200, constants_for, is_fitted
from rnnc.codegen.cuda.cost.inputs import CostInputs
from rnnc.codegen.cuda.grid.cost import grid_step
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape

LSTM = rnnc.cells.lstm


def test_each_part_is_what_the_step_loses_without_it():
    def step(exchange=True, product=True):
        return 60.4 * exchange + 20.4 * product + 40.4

    assert StepEstimate.of(step) == StepEstimate(exchange=60, product=21, pointwise=40)
    assert StepEstimate.of(step).total == round(step())


def test_a_hidden_part_counts_for_nothing():
    def step(exchange=True, product=True):
        return max(50 * exchange, 20 * product + 40)

    assert StepEstimate.of(step) == StepEstimate(exchange=0, product=20, pointwise=40)


def test_a_hop_is_hidden_under_the_work_of_other_phases():
    limits = limits_of("H200")
    shape = Shape(1, 768, batch=32)
    inputs = CostInputs.of(LSTM, shape, limits)
    plan = replace(plan_for(LSTM, shape, limits, "grid").forward, rows=32, phases=4, groups=1)

    def estimate(hop: float) -> StepEstimate:
        grid = replace(H200.grid, hop=H200.grid.hop._replace(forward=hop))
        freed = replace(inputs, constants=replace(H200, grid=grid))
        return StepEstimate.of(grid_step(freed, plan))

    assert estimate(hop=100) == estimate(hop=0)
    assert estimate(hop=1e6).exchange > 990_000


def test_a_cell_without_dense_recurrence_has_no_product():
    shape, limits = Shape(12, 64), limits_of("H200")
    for variant in ("block", "alternating"):
        plan = plan_for(rnnc.cells.indrnn, shape, limits, variant)
        for kernel in (plan.forward, plan.backward):
            assert kernel.estimate.product == 0
            assert kernel.estimate.pointwise > 0


@pytest.mark.parametrize("limits", PRESETS, ids=lambda limits: limits.name)
def test_every_gpu_uses_the_constants_of_the_h200(limits):
    assert is_fitted(limits) == (limits.name == "H200")
    assert constants_for(limits) is H200


def test_a_device_of_the_name_is_fitted():
    assert is_fitted(replace(limits_of("H200"), name="NVIDIA H200"))
    assert not is_fitted(limits_of("H100"))
