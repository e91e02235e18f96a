"""Trials of plans on this machine's GPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.request import steps_like
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.cuda.choose import PlanQuestion, choose_plan
from rnnc.runtime.cuda.driver.device import device_limits
from rnnc.runtime.cuda.tune import tune
from rnnc.runtime.store.tuned import Asked, recall


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A memory of its own, though kernels are compiled anew for it."""
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RNNC_TUNE", raising=False)
    choose_plan.cache_clear()
    yield
    choose_plan.cache_clear()


@pytest.fixture
def device():
    torch.zeros(1, device="cuda")
    return torch.cuda.current_device()


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize(
    ("name", "sizes", "dtype"),
    [
        ("lstm", (12, 64), "bfloat16"),
        ("slstm", (3, 256), "float16"),
        ("unicornn", (2, 40), "float32"),
        ("gru", (1, 24), "float64"),
    ],
)
def test_the_fastest_is_remembered_and_taken(name, sizes, dtype, save, device):
    cell, shape = rnnc.cells.get(name), Shape(*sizes, batch=5, steps=32, dtype=dtype)
    asked = Asked(cell, shape, device_limits(device), save)
    found = tune(asked, device, candidates=3)
    assert [trial.failure for trial in found.trials] == [""] * len(found.trials)
    for trial in found.trials:
        forward, backward = trial.microseconds
        assert 0.01 < forward < 1000
        assert 0.01 < backward < 1000
    took = {trial.plan: trial.microseconds for trial in found.trials}
    each = [
        min(us[i] for plan, us in took.items() if getattr(plan, d) == getattr(found.winner, d))
        for i, d in enumerate(DIRECTIONS)
    ]
    assert sum(each) <= min(map(sum, took.values()))
    assert recall(asked) == found.winner
    choice = Choice(save=save)
    like = steps_like(cell, shape.steps)
    asked_again = (cell, *sizes, 5, getattr(torch, dtype), device, choice, False, like)
    assert choose_plan(PlanQuestion(*asked_again), "forward") == found.winner


def test_the_variable_tunes_what_comes_up(draw, seeds_for, results, device, monkeypatch):
    monkeypatch.setenv("RNNC_TUNE", "1")
    cell = rnnc.cells.gru
    inputs = draw(cell, (3, 9, 2, 64), torch.bfloat16)
    seeds = seeds_for(cell, inputs)
    asked = Asked(cell, Shape(2, 64, 3), device_limits(device))
    assert recall(asked) is None
    got = results(cell, inputs, seeds)
    winner = recall(asked)
    assert winner is not None
    wanted = results(cell, inputs, seeds, variant=winner.backward.kind)
    for key, value in wanted.items():
        torch.testing.assert_close(got[key], value, rtol=2e-2, atol=2e-2, msg=key)


def test_nothing_is_tried_while_a_graph_is_captured(draw, results, device, monkeypatch):
    cell = rnnc.cells.lstm
    inputs = draw(cell, (3, 9, 2, 48), torch.bfloat16)
    seeds = {"h last": torch.ones_like(inputs.states[0])}
    wanted = results(cell, inputs, seeds)["h last"]
    # Other leaves: those of this call make a capture wait for its stream while its graph lives, and
    # autograd's thread may let that go later.
    inputs = inputs.map(lambda tensor: tensor.detach().clone().requires_grad_())
    choose_plan.cache_clear()
    monkeypatch.setenv("RNNC_TUNE", "1")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        static = results(cell, inputs, seeds)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(static["h last"], wanted)
    assert recall(Asked(cell, Shape(2, 48, 3), device_limits(device))) is None


def test_the_model_s_choice_runs_where_nothing_was_tried(device):
    cell, limits = rnnc.cells.lstm, device_limits(device)
    question = PlanQuestion(cell, 1, 768, 16, torch.bfloat16, device, Choice(), False)
    assert choose_plan(question, "forward") == plan_for(cell, Shape(1, 768, 16), limits)
