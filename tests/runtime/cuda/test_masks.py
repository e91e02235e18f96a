"""Lengths and resets on a GPU whose driver takes notes: the plans and the arguments of kernels."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.shape import DIRECTIONS
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.cuda.choose import PlanQuestion, all_plans, choose_plan
from rnnc.runtime.cuda.launchers import LAUNCHERS

CELL = rnnc.cells.lstm
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


@pytest.mark.parametrize("form", ["init", "shared", "rows", "stored"])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_get_masks_and_reset_values(kind, form, ran):
    wx = torch.randn(BATCH, STEPS, HEADS, DIM, 4, requires_grad=True)
    R = torch.randn(4, HEADS, DIM, DIM)
    shape = {"shared": (), "rows": (BATCH,), "stored": (BATCH, STEPS)}.get(form)
    values = None
    if shape is not None:
        values = tuple(torch.randn(*shape, HEADS, DIM, requires_grad=True) for _ in range(2))
    reset = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    lengths = torch.tensor([5, 0, 2])
    over_time, last = rnnc.scan(
        CELL, wx, R, backend="simulated", variant=kind,
        lengths=lengths, reset=reset, reset_to=values,
    )  # fmt: skip
    torch.autograd.grad([over_time[0].sum() + last[1].sum()], [wx])
    strides = {"shared": (0, 0), "rows": (0, HEADS * DIM), "init": (0, 0)}
    row = STEPS * HEADS * DIM
    time, rows = strides.get(form, (HEADS * DIM, row))
    for direction in DIRECTIONS:
        plan, found = ran[direction]
        assert (plan.kind, plan.masked) == (kind, True)
        late = kind == "alternating"
        assert plan.resets == (("late" if late else "ahead") if form == "stored" else "constant")
        masks = found.masks
        assert masks.restarts
        assert masks.longest
        assert list(masks.reset_time) == [time] * 2
        assert list(masks.reset_row) == [rows] * 2
        if values is not None:
            assert list(masks.reset_to) == [value.data_ptr() for value in values]
    learned = form in ("shared", "rows")
    assert all(bool(address) is learned for address in ran["backward"][1].d_reset_to)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plans_are_those_of_calls_without_masks(kind, simulated_gpu):
    choice = Choice(kind, reverse=True)
    question = PlanQuestion(CELL, HEADS, DIM, BATCH, torch.bfloat16, 0, choice, False)
    plain, masked = (choose_plan(question, "backward", masked) for masked in (False, True))
    assert plain != masked
    assert plain.in_time(True, masked=True) == masked
    assert all(plan.backward.masked for plan in all_plans(question, True))
    stored = choose_plan(question, "forward", "stored")
    assert stored == masked.with_stored_resets(CELL, 2**20)  # there is room for these sizes
    assert stored.forward in [plan.forward for plan in all_plans(question, "stored")]
