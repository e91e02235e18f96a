"""The parts of the estimated time per step add up to the estimate, for every kind of plan."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape

H200 = limits_of("H200")
SIZES = {"block": (12, 64), "cluster": (3, 256), "grid": (1, 768), "alternating": (1, 768)}


@pytest.fixture
def cost_parts(script):
    return script("roofline_kernel")


@pytest.mark.parametrize("variant", SIZES)
def test_every_part_of_every_plan_costs_something(cost_parts, variant):
    plan = plan_for(rnnc.cells.lstm, Shape(*SIZES[variant], batch=8), H200, variant)
    for found, planned in zip(cost_parts.named_parts(plan).values(), plan.nanoseconds, strict=True):
        assert set(found) == {"exchange", "product", "pointwise"}
        assert all(part > 0 for part in found.values()), found
        assert round(sum(found.values())) == planned


@pytest.mark.parametrize("name", ["lstm", "gru", "elman", "indrnn"])
@pytest.mark.parametrize("batch", [1, 64, 256])
def test_no_part_is_negative(cost_parts, name, batch):
    for heads, dim in ((12, 64), (1, 768)):
        for plan in plans_for(rnnc.cells.get(name), Shape(heads, dim, batch), H200):
            for found in cost_parts.named_parts(plan).values():
                assert min(found.values()) >= 0, str(plan)


def test_a_mixed_plan_has_each_direction_s_parts(cost_parts):
    shape = Shape(12, 64)
    block, cluster = (plan_for(rnnc.cells.lstm, shape, H200, v) for v in ("block", "cluster"))
    found = cost_parts.named_parts(Plan(block.forward, cluster.backward))
    assert found["forward"] == cost_parts.named_parts(block)["forward"]
    assert found["backward"] == cost_parts.named_parts(cluster)["backward"]
