"""Declarations in any order, on every kind of plan: the same results by name."""

from __future__ import annotations

import pytest
import rnnc
import torch


@pytest.fixture
def sizes(variant):
    """B, T, N, D, with more units where blocks share them."""
    return (5, 9, 2, 136 if variant in ("cluster", "grid") else 24)


@pytest.mark.parametrize("seed", range(24))
def test_the_order_of_declarations_decides_no_bit(
    seed, variant, sizes, mixed_cells, needs_plan, request
):
    """float64 where alternating has it; float32 against a float64 loop elsewhere."""
    if (seed, variant) == (10, "block"):
        # NVRTC moves a product behind softplus's branches in one order and not in the other, and
        # there contracts it with a sum. The values are right; a rounding differs.
        request.applymarker(pytest.mark.xfail(reason="contraction across a branch: known"))
    spec = mixed_cells.mixed(seed)
    dtype = torch.float64 if variant == "alternating" else torch.float32
    needs_plan(spec.cell(), sizes[2], sizes[3], sizes[0], dtype, variant)
    exact = mixed_cells.draw_named(spec, *sizes, device="cuda")
    seeds = mixed_cells.draw_seeds(spec, *sizes, device="cuda")
    named = {k: v.to(dtype) for k, v in exact.items()}
    wanted = mixed_cells.loop(spec, {k: v.double() for k, v in named.items()}, seeds)
    for save in ("gates", "states"):
        choice = {"backend": "cuda", "variant": variant, "save": save}
        try:
            got = mixed_cells.run(spec, named, seeds, **choice)
        except rnnc.PlanError as error:  # a block holds no cell of so many gates and states
            pytest.skip(str(error))
        bound = 1e-10 if dtype == torch.float64 else 1e-4
        wrong = {}
        for k, w in wanted.items():
            error = ((got[k].double() - w).abs().max() / w.abs().max().clamp(min=1e-6)).item()
            if not error < bound:
                wrong[k] = error
        assert wrong == {}
        again = mixed_cells.run(spec.shuffled(seed), named, seeds, **choice)
        assert [k for k in got if not torch.equal(again[k], got[k])] == []
