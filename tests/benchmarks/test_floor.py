"""The parts of the cost model's estimate: for every kind of plan they add up to the estimate."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape

H200 = limits_of("H200")


@pytest.fixture
def floor(script):
    return script("floor")


SIZES = {"block": (12, 64), "cluster": (3, 256), "grid": (1, 768), "alternating": (1, 768)}


@pytest.mark.parametrize("variant", SIZES)
def test_every_part_of_every_plan_costs_something(floor, variant):
    shape = Shape(*SIZES[variant], batch=8)  # one tile: nothing hides under another's work
    plan = plan_for(rnnc.cells.lstm, shape, H200, variant)
    for parts, planned in zip(
        floor.parts(rnnc.cells.lstm, shape, H200, plan), plan.nanoseconds, strict=True
    ):
        assert all(part > 0 for part in parts), parts
        assert sum(parts) == pytest.approx(planned, abs=1)


@pytest.mark.parametrize("name", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("batch", [1, 64, 256])
def test_the_estimate_is_the_planner_s(floor, name, batch):
    cell = rnnc.cells.get(name)
    for heads, dim in ((12, 64), (1, 768)):
        shape = Shape(heads, dim, batch)
        for plan in plans_for(cell, shape, H200):
            found = floor.estimate(cell, shape, H200, plan)
            assert found == pytest.approx(plan.nanoseconds, abs=1), str(plan)


def test_a_mixed_plan_has_each_direction_s_parts(floor):
    shape = Shape(12, 64)
    block, cluster = (plan_for(rnnc.cells.lstm, shape, H200, v) for v in ("block", "cluster"))
    found = floor.parts(rnnc.cells.lstm, shape, H200, Plan(block.forward, cluster.backward))
    forward, _ = floor.parts(rnnc.cells.lstm, shape, H200, block)
    _, backward = floor.parts(rnnc.cells.lstm, shape, H200, cluster)
    assert found == (forward, backward)


def test_constants_are_as_before(floor):
    shape = Shape(1, 768)
    plan = plan_for(rnnc.cells.lstm, shape, H200)
    before = floor.estimate(rnnc.cells.lstm, shape, H200, plan)
    floor.parts(rnnc.cells.lstm, shape, H200, plan)
    assert floor.estimate(rnnc.cells.lstm, shape, H200, plan) == before
