"""Grid plans that stream a part of R in every step: outputs and gradients, bits, and graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.grid.plan import RING_BYTES
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda import ready
from rnnc.runtime.cuda.driver.device import device_limits


def plan_of(cell, shape, dtype):
    batch, _, heads, dim = shape
    sizes = Shape(heads, dim, batch, dtype=str(dtype).removeprefix("torch."))
    return plan_for(cell, sizes, device_limits(torch.cuda.current_device()), "grid")


def streaming(plan, kept=0):
    """The plan with all but some chunks of its registers streamed, for heads that are small."""

    def kernel(sizes):
        moved = max(sizes.register_k_tiles - kept, 1)
        return replace(
            sizes,
            register_k_tiles=sizes.register_k_tiles - moved,
            streamed_k_tiles=moved,
            shared=sizes.shared + RING_BYTES * sizes.warps,
        )

    return Plan(kernel(plan.forward), kernel(plan.backward))


@pytest.fixture
def taken(monkeypatch):
    """A function that says which plan calls take."""
    return lambda plan: monkeypatch.setattr(ready, "choose_plan", lambda *_: plan)


@pytest.fixture
def right(results, errors_are_small):
    """A function that compares a call with the reference in its dtype and in float64, by name."""

    def check(cell, inputs, seeds):
        exact = inputs.map(lambda t: t.detach().double().requires_grad_())
        exact_seeds = {key: seed.double() for key, seed in seeds.items()}
        errors_are_small(
            results(cell, inputs, seeds, variant="grid"),
            results(cell, inputs, seeds, "reference"),
            results(cell, exact, exact_seeds, "reference"),
        )

    return check


# Batch, steps, heads, units: whole chunks and not, rows of odd length, turns, phases, two sources.
SMALL = [
    ("lstm", torch.bfloat16, (16, 63, 1, 512)),
    ("lstm", torch.float16, (5, 40, 2, 250)),
    ("lstm", torch.bfloat16, (9, 1, 1, 201)),
    ("gru", torch.bfloat16, (33, 40, 1, 512)),
    ("gru", torch.float32, (16, 40, 1, 330)),
    ("slstm", torch.bfloat16, (17, 40, 1, 384)),
    ("scrn", torch.bfloat16, (16, 40, 1, 500)),
    ("scrn", torch.float32, (3, 40, 1, 200)),
    ("elman", torch.bfloat16, (64, 40, 2, 256)),
]


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize(("name", "dtype", "shape"), SMALL, ids=str)
def test_outputs_and_gradients(name, dtype, shape, kept, draw, seeds_for, right, taken):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, shape, dtype, "grid")
    taken(streaming(plan_of(cell, shape, dtype), kept))
    right(cell, inputs, seeds_for(cell, inputs))


@pytest.mark.parametrize(
    ("name", "dtype", "dim"),
    [
        ("lstm", torch.bfloat16, 2560),
        ("gru", torch.bfloat16, 3072),
        ("lstm", torch.float32, 1280),
    ],
    ids=str,
)
def test_heads_larger_than_the_chip(name, dtype, dim, draw, seeds_for, right):
    cell, shape = rnnc.cells.get(name), (16, 20, 1, dim)
    inputs = draw(cell, shape, dtype, "grid")
    if not plan_of(cell, shape, dtype).forward.streams:
        pytest.skip("this chip holds all of R")
    right(cell, inputs, seeds_for(cell, inputs))


@pytest.mark.parametrize("groups", [1, 2])
def test_the_same_bits_again_in_turns_and_replayed(
    groups, draw, seeds_for, results, same_bits, taken
):
    cell, shape = rnnc.cells.lstm, (37, 24, 1, 384)
    inputs = draw(cell, shape, torch.bfloat16, "grid")
    seeds = seeds_for(cell, inputs)
    plan = streaming(plan_of(cell, shape, torch.bfloat16))
    taken(Plan(*(replace(each, groups=groups) for each in (plan.forward, plan.backward))))
    first = results(cell, inputs, seeds, variant="grid")
    same_bits(results(cell, inputs, seeds, variant="grid"), first)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static = results(cell, inputs, seeds, variant="grid")
    for _ in range(3):
        for value in static.values():
            value.fill_(torch.nan)
        graph.replay()
        same_bits(static, first)


def test_where_r_lies_does_not_matter(draw, seeds_for, results, same_bits, taken):
    """Slots are multiplied in one order, wherever they come from."""
    cell, shape = rnnc.cells.lstm, (8, 24, 1, 256)
    inputs = draw(cell, shape, torch.bfloat16, "grid")
    seeds = seeds_for(cell, inputs)
    plan = plan_of(cell, shape, torch.bfloat16)
    found = []
    for each in (plan, streaming(plan), streaming(plan, kept=1)):
        taken(each)
        found.append(results(cell, inputs, seeds, variant="grid"))
    same_bits(found[1], found[0])
    same_bits(found[2], found[0])
