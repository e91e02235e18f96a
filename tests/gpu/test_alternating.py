"""Both products of an alternating plan, each where the other might be cheaper."""

from __future__ import annotations

from itertools import cycle

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.shape import SAVES, Shape
from rnnc.runtime.cuda import ready
from rnnc.runtime.cuda.alternating import work as running
from rnnc.runtime.cuda.driver.device import device_limits

# One and several pairs and sources, gates without input, params, diagonal weights, no matrix.
CELLS = (
    *("lstm", "gru", "elman", "cornn", "slstm", "nas_cell", "peephole_lstm", "fastgrnn"),
    *("scrn", "mc_lstm", "atr", "janet", "indrnn", "gated_antisymmetric_rnn"),
)
# K in parts and whole chunks, for some warps and for each of them; units that fill no strip.
DIMS = (40, 768, 13, 96, 200, 1000, 64, 256, 1)
# A whole graph of steps and a rest, a rest alone, several graphs.
STEPS = (33, 1, 96, 7)
BATCHES = (1, 17, 16, 33, 3, 70)
MOST_UNITS = 2**21  # batch rows x steps x units


def shapes():
    """Two for each cell, product and dtype: sizes take turns."""
    dims, steps, batches, heads = cycle(DIMS), cycle(STEPS), cycle(BATCHES), cycle((1, 2, 3))
    while True:
        dim, batch = next(dims), next(batches)
        fitting = [t for t in (next(steps), 33) if t * batch * dim <= MOST_UNITS] or [5]
        yield batch, fitting[0], next(heads) if dim < 500 else 1, dim


TURN = shapes()
CASES = [
    (name, product, rows, dtype, (next(TURN), next(TURN)))
    for name in CELLS
    for product, rows in (("own", 16), ("own", 32), ("library", 0))
    for dtype in ("bfloat16", "float16")
]


@pytest.fixture
def planned(monkeypatch):
    """Makes calls run a plan with this product, and gives it; else the test is skipped."""

    def choose(cell, product, rows, shape, dtype):
        batch, _, heads, dim = shape
        limits = device_limits(torch.cuda.current_device())
        plans = {}
        for save in SAVES:
            shape_of = Shape(heads, dim, batch, dtype=dtype)
            for plan in plans_of_kind("alternating", cell, shape_of, limits, save):
                own = plan.forward.own
                if plan.forward.product == product and (not rows or own.rows == rows):
                    plans.setdefault(save, plan)
        if not plans:
            pytest.skip(f"{cell.name} has no product of its own with {rows} rows")
        monkeypatch.setattr(ready, "choose_plan", lambda question, *_: plans[question.choice.save])
        return plans["gates"].forward

    return choose


def case_name(case):
    name, product, rows, dtype, sizes = case
    shape = "-".join("x".join(map(str, size)) for size in sizes)
    return f"{name}-{product}{rows or ''}-{dtype}-{shape}"


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_outputs_and_gradients(case, planned, draw, seeds_for, results, errors_are_small):
    name, product, rows, dtype, sizes = case
    cell = rnnc.cells.get(name)
    for shape in sizes:
        planned(cell, product, rows, shape, dtype)
        inputs = draw(cell, shape, getattr(torch, dtype), time_first=rows == 16)
        seeds = seeds_for(cell, inputs)
        exact = inputs.map(lambda t: t.detach().double().requires_grad_())
        truth = results(cell, exact, {k: s.double() for k, s in seeds.items()}, "reference")
        own = results(cell, inputs, seeds, "reference")
        for save in SAVES:
            got = results(cell, inputs, seeds, variant="alternating", save=save)
            errors_are_small(got, own, truth)


# Blocks that wait for room on the chip, and a chip with room for several steps.
@pytest.mark.parametrize("shape", [(16, 300, 1, 768), (2, 300, 1, 64), (64, 100, 4, 512)])
@pytest.mark.parametrize("name", ["lstm", "gru", "elman", "cornn"])
def test_overlapping_steps_give_the_bits_of_steps_in_turn(
    name, shape, planned, draw, seeds_for, results, same_bits, monkeypatch
):
    cell = rnnc.cells.get(name)
    plan = planned(cell, "own", 0, shape, "bfloat16")
    if not plan.own.overlapped:
        pytest.skip(f"{plan.arch} has no overlapping launches")
    inputs = draw(cell, shape, torch.bfloat16)
    seeds = seeds_for(cell, inputs)
    choice = {"variant": "alternating"}
    with monkeypatch.context() as patch:
        patch.setattr(running, "overlap_possible", lambda: False)
        rnnc.free_memory()
        wanted = results(cell, inputs, seeds, **choice)
    rnnc.free_memory()
    for _ in range(5):
        same_bits(results(cell, inputs, seeds, **choice), wanted)


def test_a_graph_of_overlapping_steps_replays_on_new_data(
    planned, draw, seeds_for, results, same_bits
):
    cell, shape = rnnc.cells.lstm, (5, 70, 2, 96)
    planned(cell, "own", 0, shape, "bfloat16")
    inputs, others = (draw(cell, shape, torch.bfloat16) for _ in range(2))
    seeds = seeds_for(cell, inputs)
    choice = {"variant": "alternating"}
    results(cell, inputs, seeds, **choice)  # compiles
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        results(cell, inputs, seeds, **choice)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = results(cell, inputs, seeds, **choice)
    with torch.no_grad():
        for mine, other in zip(inputs.named().values(), others.named().values(), strict=True):
            mine.copy_(other)
    graph.replay()
    same_bits(captured, results(cell, others, seeds, **choice))


def test_two_streams_at_once_keep_apart(planned, draw, seeds_for, results, same_bits):
    cell, shape = rnnc.cells.gru, (17, 100, 1, 256)
    planned(cell, "own", 0, shape, "float16")
    calls = [draw(cell, shape, torch.float16) for _ in range(2)]
    seeds = seeds_for(cell, calls[0])
    wanted = [results(cell, inputs, seeds, variant="alternating") for inputs in calls]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    got = []
    for _ in range(3):
        got = []
        for stream, inputs in zip(streams, calls, strict=True):
            with torch.cuda.stream(stream):
                got.append(results(cell, inputs, seeds, variant="alternating"))
    torch.cuda.synchronize()
    for found, right in zip(got, wanted, strict=True):
        same_bits(found, right)


def test_a_short_call_before_a_long_one(planned, draw, seeds_for, results, errors_are_small):
    """The first leaves arguments behind whose tensors are gone when the graph is captured."""
    cell = rnnc.cells.lstm
    for product in ("own", "library"):
        rnnc.free_memory()
        for steps in (5, 40, 0, 70):
            shape = (3, steps, 1, 56)
            planned(cell, product, 0, shape, "bfloat16")
            inputs = draw(cell, shape, torch.bfloat16)
            seeds = seeds_for(cell, inputs)
            exact = inputs.map(lambda t: t.detach().double().requires_grad_())
            truth = results(cell, exact, {k: s.double() for k, s in seeds.items()}, "reference")
            own = results(cell, inputs, seeds, "reference")
            errors_are_small(results(cell, inputs, seeds, variant="alternating"), own, truth)
