"""The launches of a call whose sizes go beyond what one launch takes; no GPU."""

from __future__ import annotations

import math

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.kernel_plan import MOST_BLOCKS
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda import launchers
from rnnc.runtime.cuda.arguments import arguments_of
from rnnc.runtime.cuda.launch import CallSizes
from rnnc.runtime.cuda.launchers import launcher_of, launches
from rnnc.runtime.cuda.ready import check_counts

LSTM, H200 = rnnc.cells.lstm, limits_of("H200")
PLANS = {
    "block": plan_for(LSTM, Shape(1, 64), H200, "block").forward,
    "cluster": plan_for(LSTM, Shape(1, 256), H200, "cluster").forward,
}
HUGE = [(1, 530_000), (66_000, 3), (66_000, 530_000), (1, 1), (3, 8 * MOST_BLOCKS), (2**20, 2**20)]


def covered(plan, parts):
    """Each part's heads and tiles of batch rows, as ranges."""
    for part in parts:
        x, y, z = part.grid
        heads, tiles = (x, y) if plan is PLANS["block"] else (y, z)
        if plan is PLANS["block"]:
            assert z == 1
        else:
            assert x == plan.cluster
        yield (
            range(part.first_head, part.first_head + heads),
            range(part.first_tile, part.first_tile + tiles),
        )


@pytest.mark.parametrize(("heads", "batch"), HUGE)
@pytest.mark.parametrize("variant", PLANS)
def test_every_head_and_tile_is_launched_once(variant, heads, batch):
    plan = PLANS[variant]
    tiles = plan.batch_tiles(batch)
    assert tiles == math.ceil(batch / plan.rows)
    parts = list(launches(plan, heads, tiles))
    assert all(1 <= p.grid[1] <= MOST_BLOCKS and 1 <= p.grid[2] <= MOST_BLOCKS for p in parts)
    areas = list(covered(plan, parts))
    assert sum(len(h) * len(t) for h, t in areas) == heads * tiles
    assert len({(h.start, t.start) for h, t in areas}) == len(areas)
    assert {h.stop for h, _ in areas} >= {heads}
    assert {t.stop for _, t in areas} >= {tiles}
    if max(heads if variant == "cluster" else 1, tiles) <= MOST_BLOCKS:
        assert len(parts) == 1


@pytest.mark.parametrize("variant", PLANS)
def test_the_kernel_is_told_where_a_launch_begins(variant, monkeypatch):
    noted = []

    def load(cell, plan, name, device):
        return lambda grid, given: noted.append((grid, given.first_tile, given.first_head))

    monkeypatch.setattr(launchers, "load_kernel", load)
    plan, sizes = PLANS[variant], CallSizes(530_000, 66_000, 64)
    arguments = arguments_of(rnnc.cells.lstm, "forward", False, False)()
    launcher_of(LSTM, plan, sizes, 0).run(arguments, None, torch.zeros(1), 2)
    tiles = plan.batch_tiles(sizes.batch)
    wanted = launches(plan, sizes.heads, tiles)
    assert noted == [tuple(part) for part in wanted]
    assert len(noted) > 1


@pytest.mark.parametrize("sizes", [(2**31, 1, 1), (1, 2**31, 1), (1, 1, 2**31)])
def test_what_kernels_cannot_count_is_refused(sizes):
    with pytest.raises(rnnc.TensorError, match="at most 2147482624 of each on a GPU"):
        check_counts(*sizes)


def test_no_plan_counts_more_units_than_it_can():
    """A float64 call has an alternating plan alone."""
    with pytest.raises(rnnc.PlanError, match="4294967296 units per step: batch") as refused:
        plan_for(LSTM, Shape(2**10, 2**10, 2**12, dtype="float64"), H200)
    assert "  write:  scan on parts of the batch" in str(refused.value)
    assert plan_for(LSTM, Shape(2**10, 2**10, 2**11, dtype="float64"), H200)


def test_a_product_of_its_own_has_no_more_tiles_than_a_launch():
    plan = plan_for(LSTM, Shape(1, 64, 40 * MOST_BLOCKS), H200, "alternating")
    assert plan.forward.own is None
