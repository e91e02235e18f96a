"""What a plan is asked for: the number of steps that stands for those of a call."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.request import DENSE_STEPS, steps_like
from rnnc.codegen.shape import Shape


@pytest.mark.parametrize(
    ("steps", "like"),
    [
        (0, 64),
        (1, 64),
        (256, 64),
        (257, 1024),
        (1000, 1024),
        (5000, 1024),
        (16383, 1024),
        (16384, 16384),
    ],
)
def test_a_plan_is_chosen_for_steps_of_about_those_of_the_call(steps, like):
    assert steps_like(rnnc.cells.hgrn, steps) == like


def test_plans_of_dense_cells_are_chosen_for_the_same_steps():
    assert {steps_like(rnnc.cells.lstm, steps) for steps in (1, 1000, 10**6)} == {DENSE_STEPS}


def test_a_call_of_1000_steps_gets_the_plan_of_1024():
    """It got that of 64 steps once: a walk."""
    limits, cell = limits_of("H200"), rnnc.cells.hgrn
    kinds = {
        steps: type(plan_for(cell, Shape(4, 128, 16, steps_like(cell, steps)), limits).forward)
        for steps in (64, 1000, 1024)
    }
    assert kinds[1000] is kinds[1024]
    assert kinds[1000] is not kinds[64]
