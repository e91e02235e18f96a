"""Reversed time on a GPU: the bits of flipped inputs' flipped results, on every kind of plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import DIRECTIONS
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.cuda import ready
from rnnc.runtime.cuda.choose import PlanQuestion, choose_plan

STEPS = (1, 2, 3, 17, 70)  # the last: a graph of steps and a rest
DTYPES = ("float32", "bfloat16", "float16", "float64")


@pytest.fixture
def sizes(variant):
    """B, N and D: odd ones, more units where several blocks share them."""
    return {"cluster": (5, 2, 136), "grid": (9, 1, 264)}.get(variant, (5, 3, 40))


@pytest.fixture
def compare(results, same_bits, errors_are_small):
    """Compares a call with the flipped one. Products may add the steps of R's gradient in another
    order: its error against float64 is at most twice that of the flipped call."""

    def run(cell, inputs, seeds, **choice):
        got = results(cell, inputs, seeds, reverse=True, **choice)
        turned = replace(inputs, wx=inputs.wx.detach().flip(1).requires_grad_())

        def flip(found):
            over_time = {"gradient of wx", *(f"{s.name} over time" for s in cell.states)}
            return {k: v.flip(1) if k in over_time else v for k, v in found.items()}

        wanted = flip(results(cell, turned, flip(seeds), **choice))
        name = "gradient of R"
        if name in got and inputs.wx.shape[1] > 2:
            exact = inputs.map(lambda t: t.detach().double().requires_grad_())
            doubles = {k: v.double() for k, v in seeds.items()}
            truth = results(cell, exact, doubles, backend="reference", reverse=True)
            ours, theirs = {name: got.pop(name)}, {name: wanted.pop(name)}
            errors_are_small(ours, theirs, {name: truth[name]})
        same_bits(got, wanted)

    return run


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_the_flipped_result_of_flipped_inputs(
    dtype, save, variant, sizes, draw, seeds_for, compare, poisoned
):
    if dtype == "float64" and variant != "alternating":
        pytest.skip("alternating plans alone compute in float64")
    batch, heads, dim = sizes
    cell = rnnc.cells.lstm
    for i, steps in enumerate(STEPS):
        shape = (batch, steps, heads, dim)
        inputs = draw(cell, shape, getattr(torch, dtype), variant, time_first=i % 2 == 0)
        choice = {"variant": variant, "save": save, "precision": "ieee"}
        compare(cell, inputs, seeds_for(cell, inputs), **choice)


@pytest.mark.parametrize("name", ["gru", "slstm", "unicornn"])
def test_cells_with_other_gradients(name, variant, sizes, draw, seeds_for, compare, poisoned):
    """Gates without input, four states, params and diagonal weights."""
    cell = rnnc.cells.get(name)
    batch, heads, dim = sizes
    if variant == "grid" and not cell.dense_pairs:
        pytest.skip("a grid plan needs dense gates")
    for steps in (1, 3, 40):
        inputs = draw(cell, (batch, steps, heads, dim), torch.bfloat16, variant)
        compare(cell, inputs, seeds_for(cell, inputs), variant=variant)


def test_seeds_of_some_results_alone(variant, sizes, draw, seeds_for, compare):
    cell = rnnc.cells.lstm
    batch, heads, dim = sizes
    inputs = draw(cell, (batch, 9, heads, dim), torch.bfloat16, variant)
    seeds = seeds_for(cell, inputs)
    for name in ("h over time", "c last"):
        compare(cell, inputs, {name: seeds[name]}, variant=variant)


def test_a_captured_call(variant, sizes, draw, results, seeds_for, same_bits):
    """In a graph of the caller's, whose replay gives the bits of a call."""
    cell = rnnc.cells.lstm
    batch, heads, dim = sizes
    inputs = draw(cell, (batch, 20, heads, dim), torch.bfloat16, variant)
    seeds = seeds_for(cell, inputs)
    choice = {"variant": variant, "reverse": True}
    wanted = results(cell, inputs, seeds, **choice)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        results(cell, inputs, seeds, **choice)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = results(cell, inputs, seeds, **choice)
    graph.replay()
    torch.cuda.synchronize()
    same_bits(found, wanted)


@pytest.fixture
def same_plan(monkeypatch):
    """Lets all calls run by one plan. For fewer heads a grid plan may have another size of cluster,
    whose blocks share K, so that parts of a product are added in another order."""

    def choose(question):
        plan = Plan(*(choose_plan(question, each).kernel(each) for each in DIRECTIONS))
        monkeypatch.setattr(
            ready, "choose_plan", lambda *other: plan.in_time(other[0].choice.reverse)
        )
        ready.ready_for.cache_clear()

    yield choose
    ready.ready_for.cache_clear()


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_both_directions_in_one_call(
    name, dtype, save, variant, sizes, needs_plan, same_plan, two_directions
):
    """Twice the heads: the bits of a call of each direction by the same plan."""
    if dtype == "float64" and variant != "alternating":
        pytest.skip("alternating plans alone compute in float64")
    batch, heads, dim = sizes
    cell, kind = rnnc.cells.get(name), getattr(torch, dtype)
    needs_plan(cell, 2 * heads, dim, batch, kind, variant)
    choice = Choice(variant, save, "ieee")
    same_plan(PlanQuestion(cell, 2 * heads, dim, batch, kind, 0, choice, False))
    for steps in STEPS:
        shape = (batch, steps, 2 * heads, dim)
        options = {"device": "cuda", "variant": variant, "save": save}
        two_directions.check_both(name, shape, kind, "cuda", **options)
