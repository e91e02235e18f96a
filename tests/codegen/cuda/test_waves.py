"""Plans of calls whose rows end early, the longest first."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import rnnc
from rnnc.codegen.cuda.cost.waves import launches_of, longest_of, waves_of
from rnnc.codegen.cuda.directions import joined
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import PlanError, Shape

WHOLE = Shape(heads=2, head_dim=384, batch=64, dtype="float16")


def test_rows_that_run_all_steps_fill_whole_waves():
    for tiles in range(1, 20):
        for places in range(1, 50):
            assert waves_of(WHOLE, tiles, places) == math.ceil(2 * tiles / places)
    assert launches_of(WHOLE, 3) == 3


@pytest.mark.parametrize("fill", [0.125, 0.5, 0.875])
def test_short_tiles_take_less(fill):
    shape = replace(WHOLE, fill=fill)
    mean = sum(longest_of(shape, i / 1000) for i in range(1000)) / 1000
    assert mean == pytest.approx(fill, abs=1e-3)
    for tiles, places in ((8, 7), (32, 7), (64, 132), (5000, 7)):
        found, whole = waves_of(shape, tiles, places), waves_of(WHOLE, tiles, places)
        assert max(1, fill * 2 * tiles / places) <= found <= whole
    assert waves_of(shape, 8, 16) == 1, "all at once: as long as the longest"
    assert 1 < launches_of(shape, 4) < 4


def test_other_plans_are_faster_where_rows_end_early():
    """Of clusters not all run at once, which costs little where later ones are short."""
    found = {
        fill: plan_for(rnnc.cells.lstm, replace(WHOLE, fill=fill), limits_of("H200"))
        for fill in (1.0, 0.5)
    }
    assert found[1.0].backward.kind == "grid"
    assert found[0.5].backward.kind == "cluster"
    assert sum(found[0.5].nanoseconds) < 0.75 * sum(found[1.0].nanoseconds)


def test_directions_of_short_rows_share_the_gpu_as_two_calls():
    """As one call where all their tiles run at once."""
    for sizes, fill, joint in (
        ((384, 64), 1.0, True),
        ((384, 64), 0.5, False),
        ((128, 32), 1.0, True),
        ((128, 32), 0.5, True),
    ):
        dim, batch = sizes
        shape = Shape(heads=1, head_dim=dim, batch=batch, dtype="float16", fill=fill)
        one, both = (
            plan_for(rnnc.cells.lstm, replace(shape, heads=heads), limits_of("H200"))
            for heads in (1, 2)
        )
        assert joined(one, both, fill) == joint, (sizes, fill)


@pytest.mark.parametrize("fill", [0, -1, 1.1, math.nan])
def test_what_is_no_share_is_refused(fill):
    with pytest.raises(PlanError, match="fill"):
        replace(WHOLE, fill=fill)
