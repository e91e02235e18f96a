"""The plan of a single step: asked for like any other kind, and by nobody who runs over time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from rnnc.codegen.cuda.kinds import KINDS, kinds_for, variants
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.cuda.step.plan import StepPlan
from rnnc.codegen.shape import PlanError, Shape
from rnnc.runtime.cuda.launchers import LAUNCHERS
from rnnc.runtime.store.tuned import Asked, packed_plan, planned, unpacked_plan

LSTM, H200 = rnnc.cells.lstm, limits_of("H200")


def step(batch, dtype="bfloat16", tf32=False):
    shape = Shape(1, 512, batch, dtype=dtype)
    return plan_for(LSTM, shape, H200, "step", tf32=tf32, features=512)


def test_it_is_a_kind_that_no_caller_over_time_can_ask_for():
    assert list(KINDS) == list(LAUNCHERS) == [*kinds_for(), *kinds_for(single=True)]
    assert variants(single=True) == ("auto", "step")
    assert "step" not in variants()
    every = "wanted: one of auto, block, cluster, grid, walk, scan, alternating\n"
    with pytest.raises(PlanError, match=every):
        plan_for(LSTM, Shape(1, 64), H200, "step")
    with pytest.raises(rnnc.RnncError, match=every):
        rnnc.RNN(LSTM, 8, 8, variant="step")
    assert "step" not in {plan.variant for plan in plans_for(LSTM, Shape(1, 64), H200)}


def test_other_kinds_run_no_single_step():
    with pytest.raises(PlanError) as refused:
        plan_for(LSTM, Shape(1, 64), H200, "block", features=64)
    assert str(refused.value) == (
        "plan of a single step\n"
        "  found:  variant='block'\n"
        "  wanted: one of auto, step\n"
        '  write:  variant="auto"'
    )
    auto = plan_for(LSTM, Shape(1, 64), H200, features=64)
    assert auto == plan_for(LSTM, Shape(1, 64), H200, "step", features=64)


def test_a_gpu_that_is_too_old_has_none():
    with pytest.raises(PlanError, match="compute capability"):
        plan_for(LSTM, Shape(1, 64), replace(H200, capability=(7, 5)), features=64)


@pytest.mark.parametrize(
    ("batch", "dtype", "tf32"),
    [
        (1, "bfloat16", False),
        (64, "bfloat16", False),
        (64, "float32", True),
        (16, "float64", False),
    ],
)
def test_its_plans_are_read_from_a_file_as_they_were(batch, dtype, tf32, tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    plan = step(batch, dtype, tf32)
    assert isinstance(plan.forward, StepPlan)
    assert unpacked_plan(packed_plan(plan), "sm_90") == plan
    asked = Asked(LSTM, Shape(1, 512, batch, dtype=dtype), H200, tf32=tf32, features=512)
    assert planned(asked, "step") == planned(asked, "step") == plan
    planned(replace(asked, features=3), "step")
    assert len(list(tmp_path.rglob("*.memo"))) == 2


def test_features_are_checked():
    with pytest.raises(PlanError, match="found:  features=-1\n"):
        plan_for(LSTM, Shape(1, 64), H200, features=-1)


def test_directions_round_by_themselves():
    # With few rows only the backward multiplies by matrix instructions.
    plan = step(4, "float32", True)
    assert (plan.forward.tf32, plan.backward.tf32) == (False, True)


def test_it_says_who_multiplies():
    assert str(step(64)) == (
        "step (sm_90, bfloat16), saves gates for the backward\n"
        "  forward:  a block per 8 units and 16 batch rows; 8 slices of K\n"
        "  backward: a block per 16 units and 128 columns of weights; product: all batch rows"
    )
