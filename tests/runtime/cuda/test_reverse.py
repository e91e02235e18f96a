"""Reversed time on a GPU whose driver takes notes: the plans and the arguments of kernels."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.shape import DIRECTIONS
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.cuda.choose import PlanQuestion, all_plans, choose_plan
from rnnc.runtime.cuda.launchers import LAUNCHERS

CELL = rnnc.cells.slstm
BATCH, STEPS, HEADS, DIM = 3, 5, 2, 64
KINDS = ("block", "cluster", "grid", "alternating")


@pytest.fixture
def ran(simulated_gpu, monkeypatch):
    """The plan and the arguments of each direction that runs."""
    notes = {}

    def run(launcher, arguments, R, like, steps):
        notes[launcher._plan.direction] = (launcher._plan, arguments)

    for launcher in set(LAUNCHERS.values()):
        monkeypatch.setattr(launcher, "run", run)
    return notes


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_reversed_time_get_the_tensors_as_they_are(kind, save, ran):
    """No tensor is flipped or copied; both directions run the kernels of reversed time."""
    wx = torch.randn(STEPS, BATCH, HEADS, DIM, 4).transpose(0, 1).requires_grad_()
    R = torch.randn(4, HEADS, DIM, DIM).requires_grad_()
    options = {"backend": "simulated", "variant": kind, "save": save}
    over_time, _ = rnnc.scan(CELL, wx, R, **options, reverse=True)
    plan, forward = ran["forward"]
    assert (plan.kind, plan.reverse, forward.steps) == (kind, True, STEPS)
    assert (forward.wx, forward.wx_time, forward.wx_row) == (wx.data_ptr(), *wx.stride()[1::-1])
    assert list(forward.states) == [s.data_ptr() for s in over_time]
    seed = torch.randn(BATCH, STEPS, HEADS, DIM)
    (d_wx,) = torch.autograd.grad(over_time[2], wx, seed)
    plan, backward = ran["backward"]
    assert (plan.kind, plan.reverse) == (kind, True)
    assert list(backward.states) == list(forward.states)
    assert backward.d_wx == d_wx.data_ptr()
    assert list(backward.d_states) == [None, None, seed.data_ptr(), None]
    assert (backward.d_states_time[2], backward.d_states_row[2]) == seed.stride()[1::-1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_plans_are_those_of_calls_that_run_forwards(kind, simulated_gpu):
    sizes = (CELL, HEADS, DIM, BATCH, torch.bfloat16, 0)
    orders = (False, True, "half")
    choices = [Choice(kind, reverse=order) for order in orders]
    plans = [choose_plan(PlanQuestion(*sizes, choice, False), "forward") for choice in choices]
    assert len(set(plans)) == 3
    for plan, order in zip(plans, orders, strict=True):
        assert plans[0].in_time(order) == plan
        assert all(getattr(plan, d).reverse == order for d in DIRECTIONS)


def test_another_plan_for_lack_of_room_runs_in_the_same_order(simulated_gpu):
    sizes = (CELL, HEADS, DIM, BATCH, torch.bfloat16, 0)
    question = PlanQuestion(*sizes, Choice(reverse=True), False)
    assert all(plan.backward.reverse for plan in all_plans(question))
    assert all(plan.forward.reverse for plan in all_plans(question))
