"""Loops on a GPU: every plan computes what the reference's loop computes, gradients by name."""

from __future__ import annotations

import pytest
import rnnc
import torch

NAMES = ["neuron", "nested", "chained", "spiking"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_every_plan_runs_the_passes(
    name, dtype, variant, shape, draw, seeds_for, results, errors_are_small, loop_cells
):
    cell = loop_cells.CELLS[name](rnnc.repeat, 6)
    inputs = draw(cell, shape, dtype, variant)
    seeds = seeds_for(cell, inputs)
    own = results(cell, inputs, seeds, "reference")
    exact = inputs.map(lambda t: t.detach().double().requires_grad_())
    truth = results(cell, exact, {n: s.double() for n, s in seeds.items()}, "reference")
    for choice in ({"variant": variant}, {"variant": variant, "save": "states"}, {}):
        errors_are_small(results(cell, inputs, seeds, **choice), own, truth)
