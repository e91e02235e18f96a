"""The forward of one kind of plan and the backward of another, against the float64 reference."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import DIRECTIONS, SAVES, PlanError, Shape
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.cuda import ready
from rnnc.runtime.cuda.choose import PlanQuestion, choose_plan
from rnnc.runtime.cuda.driver.device import device_limits
from rnnc.runtime.cuda.launchers import LAUNCHERS
from rnnc.runtime.cuda.nvrtc import compile_plan
from rnnc.runtime.program.seen import forget_replays

# Several sources, a gate without input, diagonal weights, params: what a layout can get wrong.
CELLS = ("lstm", "gru", "slstm", "elman", "peephole_lstm", "cornn")
PAIRS = tuple(permutations(("block", "cluster", "grid"), 2))
SHAPES = ((17, 63, 2), (5, 1, 3))  # batch, steps and heads
DIMS = {"bfloat16": 64, "float32": 40}


def mixed_plans(name, dtype, pair, sizes):
    """By what is kept, the plan of a pair of variants for (batch, steps, heads)."""
    batch, steps, heads = sizes
    shape = Shape(heads, DIMS[dtype], batch, steps, dtype)
    limits = device_limits(torch.cuda.current_device())
    found = {}
    for save in SAVES:
        first, second = (plan_for(rnnc.cells.get(name), shape, limits, v, save=save) for v in pair)
        found[save] = Plan(first.forward, second.backward)
    return found


@pytest.fixture(scope="module", autouse=True)
def compiled_ahead(request):
    """All cores compile what one would compile test by test."""
    jobs = {}
    for item in request.session.items:
        call = getattr(item, "callspec", None)  # of a test with parameters
        if item.module is not request.module or call is None or "pair" not in call.params:
            continue
        name, dtype, pair = (call.params[p] for p in ("name", "dtype", "pair"))
        for sizes in SHAPES:
            try:
                plans = mixed_plans(name, dtype, pair, sizes).values()
            except PlanError:
                continue  # the test skips, and says why
            jobs |= {
                (rnnc.cells.get(name), kernel): None
                for p in plans
                for kernel in (p.forward, p.backward)
            }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: compile_plan(*job), jobs))


@pytest.fixture
def runs(monkeypatch):
    """Makes calls run plans by what they keep; says what ran, by variant and direction."""
    ran = []

    def note(launcher):
        run = launcher.run

        def noted(self, *given):
            ran.append((self._plan.kind, self._plan.direction))
            run(self, *given)

        monkeypatch.setattr(launcher, "run", noted)

    for launcher in set(LAUNCHERS.values()):
        note(launcher)

    def choose(plans):
        ready.ready_for.cache_clear()
        forget_replays()
        monkeypatch.setattr(ready, "choose_plan", lambda question, *_: plans[question.choice.save])
        return ran

    yield choose
    ready.ready_for.cache_clear()
    forget_replays()


@pytest.fixture
def plans_of():
    """The plans of a case; the test is skipped, in the planner's words, where there is none."""

    def find(*case):
        try:
            return mixed_plans(*case)
        except PlanError as error:
            pytest.skip(str(error))

    return find


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
@pytest.mark.parametrize("dtype", DIMS)
@pytest.mark.parametrize("name", CELLS)
def test_outputs_and_gradients(
    name, dtype, pair, plans_of, runs, draw, seeds_for, results, errors_are_small
):
    cell = rnnc.cells.get(name)
    for sizes in SHAPES:
        ran = runs(plans_of(name, dtype, pair, sizes))
        inputs = draw(cell, (*sizes, DIMS[dtype]), getattr(torch, dtype))
        seeds = seeds_for(cell, inputs)
        exact = inputs.map(lambda t: t.detach().double().requires_grad_())
        truth = results(cell, exact, {k: s.double() for k, s in seeds.items()}, "reference")
        own = results(cell, inputs, seeds, "reference")
        for save in SAVES:
            ran.clear()
            got = results(cell, inputs, seeds, save=save)
            assert ran == [(pair[0], "forward"), (pair[1], "backward")]
            errors_are_small(got, own, truth)


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
@pytest.mark.parametrize("dtype", DIMS)
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_same_bits_from_poisoned_memory_and_the_forward_s_own(
    name, dtype, pair, plans_of, runs, draw, seeds_for, results, same_bits, poisoned
):
    cell = rnnc.cells.get(name)
    plans = plans_of(name, dtype, pair, SHAPES[0])
    inputs = draw(cell, (*SHAPES[0], DIMS[dtype]), getattr(torch, dtype))
    seeds = seeds_for(cell, inputs)
    runs(plans)
    first = results(cell, inputs, seeds)
    torch.use_deterministic_algorithms(False)
    same_bits(results(cell, inputs, seeds), first)
    runs(plans_of(name, dtype, (pair[0], pair[0]), SHAPES[0]))
    alone = results(cell, inputs, seeds)
    outputs = [key for key in first if not key.startswith("gradient")]
    same_bits({key: alone[key] for key in outputs}, {key: first[key] for key in outputs})


def test_auto_runs_what_it_estimates_to_be_the_fastest_of_each_direction(
    runs, draw, seeds_for, results
):
    cell, device = rnnc.cells.lstm, torch.cuda.current_device()
    plan = plan_for(cell, Shape(12, 64), device_limits(device))
    if "+" not in plan.variant:
        pytest.skip(f"one plan is the best of both directions here:\n{plan}")
    inputs = draw(cell, (16, 33, 12, 64), torch.bfloat16)
    question = PlanQuestion(cell, 12, 64, 16, torch.bfloat16, device, Choice(), False)
    chosen = Plan(*(choose_plan(question, each).kernel(each) for each in DIRECTIONS))
    assert "+" in chosen.variant, "or a trial is remembered, or the chip has no room"
    ran = runs({"gates": chosen})
    results(cell, inputs, seeds_for(cell, inputs))
    assert ran == [(chosen.forward.kind, "forward"), (chosen.backward.kind, "backward")]
