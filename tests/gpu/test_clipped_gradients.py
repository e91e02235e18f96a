"""Clipped gradients: no plan adds to a gradient after it was clipped."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Constant, Gate, State, clip_gradient, constant, sigmoid, tanh, where


@rnnc.cell
def clipped(
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
    h: State,
    c: State,
    bound: Constant = constant(0.05),
):
    """An LSTM in which a gate's, a state's and the output's gradients are clipped."""
    i = clip_gradient(i, bound)
    c = clip_gradient(sigmoid(f) * c + sigmoid(i) * tanh(z), bound)
    return clip_gradient(sigmoid(o) * tanh(c), bound), c


@rnnc.cell
def recurrent_part(g: Gate, h: State, *, m: Gate = rnnc.gate(input=False, bias=False)):
    """The part that comes back through R alone is clipped."""
    return tanh(g) * 0.5 + tanh(clip_gradient(m, 0.02)) * 0.5


@rnnc.cell
def in_a_branch(g: Gate, k: Gate, h: State):
    """The clip holds in one branch only."""
    return where(g > 0, clip_gradient(tanh(k) + h / 2, 0.2), tanh(g))


CELLS = [clipped, clipped.with_constants(bound=100), recurrent_part, in_a_branch]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("cell", CELLS, ids=["clipped", "wide", "recurrent_part", "in_a_branch"])
def test_every_plan_clips_the_sum(
    cell, dtype, variant, shape, draw, seeds_for, results, errors_are_small
):
    """By name, and what `auto` takes at this size too."""
    inputs = draw(cell, shape, dtype, variant)
    seeds = seeds_for(cell, inputs)
    own = results(cell, inputs, seeds, "reference")
    exact = inputs.map(lambda t: t.detach().double().requires_grad_())
    truth = results(cell, exact, {n: s.double() for n, s in seeds.items()}, "reference")
    for choice in ({"variant": variant}, {"variant": variant, "save": "states"}, {}):
        errors_are_small(results(cell, inputs, seeds, **choice), own, truth)


@pytest.mark.parametrize(("heads", "dim"), [(3, 256), (4, 128), (1, 512), (12, 64)])
def test_shapes_that_auto_gives_to_clusters(heads, dim, draw, seeds_for, results, errors_are_small):
    """Here a cluster runs the backward, where another kind of plan may run the forward."""
    cell = CELLS[0]
    inputs = draw(cell, (9, 50, heads, dim), torch.float32)
    seeds = seeds_for(cell, inputs)
    own = results(cell, inputs, seeds, "reference")
    exact = inputs.map(lambda t: t.detach().double().requires_grad_())
    truth = results(cell, exact, {n: s.double() for n, s in seeds.items()}, "reference")
    errors_are_small(results(cell, inputs, seeds), own, truth)
