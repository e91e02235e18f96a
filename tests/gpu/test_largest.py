"""The largest heads that `rnnc limits` shows run correctly; larger ones are refused."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.largest import largest_head_dims
from rnnc.runtime.cuda.driver.device import device_limits

FUSED = ["block", "cluster", "grid"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("variant", FUSED)
@pytest.mark.parametrize("name", ["lstm", "elman"])
def test_the_largest_head_runs(name, variant, dtype, draw, seeds_for, results, errors_are_small):
    cell, limits = rnnc.cells.get(name), device_limits(torch.cuda.current_device())
    word = str(dtype).removeprefix("torch.")
    dim = largest_head_dims(cell, limits, word).dims[variant]
    if not dim:
        pytest.skip(f"{limits.name} has no clusters")
    inputs = draw(cell, (3, 5, 1, dim), dtype, variant)
    seeds = seeds_for(cell, inputs)
    exact = inputs.map(lambda t: t.detach().double().requires_grad_())
    exact_seeds = {key: seed.double() for key, seed in seeds.items()}
    errors_are_small(
        results(cell, inputs, seeds, variant=variant),
        results(cell, inputs, seeds, "reference"),
        results(cell, exact, exact_seeds, "reference"),
    )
    if variant == "grid":
        return  # what is larger streams: test_streamed.py
    larger = draw(cell, (3, 5, 1, dim + 8), dtype)
    with pytest.raises(rnnc.PlanError, match=f"wanted: a head dim of at most {dim}"):
        results(cell, larger, seeds_for(cell, larger), variant=variant)
