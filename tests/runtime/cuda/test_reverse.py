"""Reversed time on a GPU whose driver takes notes: the addresses and strides that kernels get."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.call import Choice
from rnnc.runtime.cuda.choose import all_plans, asked_for, choose_plan
from rnnc.runtime.cuda.launchers import LAUNCHERS
from rnnc.runtime.cuda.step_down import _others

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


def step(tensor, t):
    """The address of a step of a tensor, (T, ...)."""
    return tensor[t].data_ptr()


def inputs(time_first=True):
    wx = torch.randn(STEPS, BATCH, HEADS, DIM, 4).transpose(0, 1)
    wx = wx if time_first else wx.contiguous()
    return wx.requires_grad_(), torch.randn(4, HEADS, DIM, DIM).requires_grad_()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("time_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_get_the_step_that_runs_first(kind, time_first, reverse, ran):
    wx, R = inputs(time_first)
    options = {"backend": "simulated", "variant": kind, "reverse": reverse}
    over_time, _ = rnnc.scan(CELL, wx, R, **options)
    plan, forward = ran["forward"]
    first, sign = (STEPS - 1, -1) if reverse else (0, 1)
    assert plan.kind == kind
    assert plan.reverse == reverse
    assert forward.steps == STEPS
    assert forward.wx == step(wx.transpose(0, 1), first)
    assert (forward.wx_time, forward.wx_row) == (sign * wx.stride(1), wx.stride(0))
    states = [s.transpose(0, 1) for s in over_time]
    assert list(forward.states) == [step(s, first) for s in states]

    seeds = [torch.randn(STEPS, BATCH, HEADS, DIM).transpose(0, 1), None, None, None]
    seeds[2] = torch.randn(BATCH, STEPS, HEADS, DIM)
    outputs = [s for s, d in zip(over_time, seeds, strict=True) if d is not None]
    given = [d for d in seeds if d is not None]
    (d_wx,) = torch.autograd.grad(outputs, (wx,), given)
    plan, backward = ran["backward"]
    assert plan.reverse == reverse
    assert list(backward.states) == [step(s, first) for s in states]
    assert backward.saved == forward.saved
    assert backward.d_wx == step(d_wx.transpose(0, 1), first)
    for i, seed in enumerate(seeds):
        if seed is None:
            assert backward.d_states[i] is None
        else:
            assert backward.d_states[i] == step(seed.transpose(0, 1), first)
            assert backward.d_states_time[i] == sign * seed.stride(1)
            assert backward.d_states_row[i] == seed.stride(0)


def test_what_is_not_stored_stays_null(ran):
    wx, R = (t.detach() for t in inputs())
    rnnc.scan(CELL, wx, R, backend="simulated", variant="block", reverse=True)
    _, arguments = ran["forward"]
    assert not arguments.saved


@pytest.mark.parametrize("kind", KINDS)
def test_the_plans_of_reversed_time_are_those_of_calls_that_run_forwards(kind, simulated_gpu):
    sizes = (CELL, HEADS, DIM, BATCH, torch.bfloat16, 0)
    plans = [choose_plan(*sizes, Choice(kind, reverse=r), False) for r in (False, True)]
    assert plans[0].in_time(True) == plans[1]
    assert plans[0] != plans[1]


def test_another_plan_for_lack_of_room_runs_in_the_same_order(simulated_gpu):
    question = (CELL, HEADS, DIM, BATCH, torch.bfloat16, 0, Choice(reverse=True), False)
    assert all(plan.reverse for plan in _others(question, "backward"))
    assert all(plan.forward.reverse for plan in all_plans(asked_for(*question), True))
