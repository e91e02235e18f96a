"""The pairing of forward and backward plans: two kinds only where that is faster."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import FrozenInstanceError, replace

import pytest
import rnnc
from hypothesis import given, settings
from hypothesis import strategies as st
from rnnc.codegen.cuda.cost.estimate import StepEstimate
from rnnc.codegen.cuda.kinds import kinds_for
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.pairs import LEAST_GAIN, cheapest, like_pairs
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import PlanError, Shape

from ...one_stage import ONE_STAGE

H200 = limits_of("H200")
LSTM = rnnc.cells.lstm
SHAPE = Shape(12, 64)
BLOCK, CLUSTER, GRID = (plan_for(LSTM, SHAPE, H200, v) for v in ("block", "cluster", "grid"))
ALTERNATING = plan_for(LSTM, SHAPE, H200, "alternating")

cells = st.sampled_from([rnnc.cells.get(name) for name in ONE_STAGE])
shapes = st.builds(
    Shape,
    heads=st.sampled_from([1, 3, 12, 48]),
    head_dim=st.sampled_from([16, 40, 64, 96, 128, 256]),
    batch=st.sampled_from([1, 16, 17, 128]),
    dtype=st.sampled_from(["bfloat16", "float16", "float32", "float64"]),
)


def auto_takes(cell, shape, limits, save, tf32):
    """The like pairs that `auto` takes, all that there are: resident ones, and the others."""
    found = []
    for kind in kinds_for():
        with suppress(PlanError):
            found += plans_of_kind(kind, cell, shape, limits, save, tf32, for_auto=True)
    resident = [plan for plan in found if plan.variant != "alternating"]
    return resident, [plan for plan in found if plan.variant == "alternating"]


@given(cells, shapes, st.sampled_from(PRESETS), st.sampled_from(["gates", "states"]), st.booleans())
@settings(max_examples=15, deadline=None)
def test_auto_mixes_the_best_of_two_plans_and_only_where_that_gains(
    cell, shape, limits, save, tf32
):
    plan = plan_for(cell, shape, limits, save=save, tf32=tf32)
    resident, others = auto_takes(cell, shape, limits, save, tf32)
    like = min((*resident, *others), key=lambda p: sum(p.costs))
    least = [math.inf, math.inf]
    if resident:
        least = [min(own) for own in zip(*(p.costs for p in resident), strict=True)]
    if like in others:
        mixes = sum(least) < (1 - LEAST_GAIN) * sum(like.costs)
        assert sum(plan.costs) == (sum(least) if mixes else sum(like.costs))
    else:
        for own, cost, lowest in zip(plan.costs, like.costs, least, strict=True):
            assert own == (lowest if lowest < (1 - LEAST_GAIN) * cost else cost)
    if plan.variant != "alternating":  # which says why in its `binding`
        assert plan.forward in [p.forward for p in resident]
        assert plan.backward in [p.backward for p in resident]
    assert (plan.save, plan.dtype, plan.arch, plan.tf32) == (save, shape.dtype, limits.arch, tf32)


def test_the_shapes_of_the_benchmark_that_are_mixed():
    mixed = plan_for(LSTM, SHAPE, H200)
    assert mixed == Plan(BLOCK.forward, CLUSTER.backward)
    assert mixed.variant == plan_for(rnnc.cells.slstm, SHAPE, H200).variant == "block+cluster"
    # Two phases hide a forward's exchange; a backward runs the batch in waves.
    waves = plan_for(LSTM, Shape(1, 2048), H200)
    assert waves.variant == "grid"
    assert (waves.forward.phases, waves.backward.phases) == (2, 1)
    for shape in (Shape(48, 16), Shape(12, 64, 128), Shape(6, 128), Shape(1, 768)):
        found = plan_for(LSTM, shape, H200)
        assert found.forward.kind == found.backward.kind
        assert found.forward.cut == found.backward.cut


@pytest.mark.parametrize("variant", ["block", "cluster", "grid", "alternating"])
def test_a_variant_that_is_named_is_not_mixed(variant):
    plan = plan_for(LSTM, SHAPE, H200, variant)
    assert plan.variant == plan.forward.kind == plan.backward.kind == variant


def test_the_least_gain_and_what_is_never_mixed():
    def taken(*costs):
        return cheapest((BLOCK, CLUSTER, ALTERNATING), costs)

    block_cluster = Plan(BLOCK.forward, CLUSTER.backward)
    assert taken((40, 60), (60, 57), (200, 200)) == BLOCK, "exactly 5 % less"
    assert taken((40, 60), (60, 56), (200, 200)) == block_cluster
    assert taken((40, 600), (39, 602), (999, 999)) == BLOCK
    assert taken((40, 600), (30, 611), (999, 999)) == Plan(CLUSTER.forward, BLOCK.backward)
    assert taken((60, 50), (40, 71), (200, 200)) == Plan(CLUSTER.forward, BLOCK.backward)
    assert taken((60, 50), (40, 69), (200, 200)) == Plan(CLUSTER.forward, BLOCK.backward)
    assert taken((40, 60), (60, 60), (10, 200)) == BLOCK
    assert taken((40, 60), (60, 60), (20, 20)) == ALTERNATING
    # Two that are dearer by themselves than one that is not mixed may still beat it.
    assert taken((40, 90), (90, 40), (50, 50)) == block_cluster
    assert taken((0, 0), (0, 0), (0, 0)) == BLOCK
    assert cheapest((ALTERNATING,), [(1, 1)]) == ALTERNATING


def test_like_pairs_are_the_best_and_each_kernel_with_the_best_other():
    def kernels(kernel, *costs):
        return [replace(kernel, estimate=StepEstimate(pointwise=cost)) for cost in costs]

    forwards = [*kernels(BLOCK.forward, 1, 3), *kernels(replace(BLOCK.forward, rows=8), 2)]
    backwards = [*kernels(BLOCK.backward, 5, 7), *kernels(replace(BLOCK.backward, rows=12), 6)]
    found = [plan.nanoseconds for plan in like_pairs(forwards, backwards)]
    assert found == [(1, 5), (3, 5), (1, 7)]


def test_it_prints_each_direction_with_its_plan():
    plan = Plan(BLOCK.forward, GRID.backward)
    first, second = plan.forward, plan.backward
    assert str(plan).splitlines() == [
        "block+grid (sm_90, bfloat16, head dim 64), saves gates for the backward",
        f"  forward:  {first.mapping}; {first.sizes}; about {first.nanoseconds} ns per step;"
        f" binds: {first.binding}",
        f"  backward: {second.mapping}; {second.sizes}; about {second.nanoseconds} ns per step;"
        f" binds: {second.binding}",
    ]


@pytest.mark.parametrize(
    "other",
    [
        replace(CLUSTER.backward, arch="sm_100"),
        replace(CLUSTER.backward, dtype="float16"),
        replace(CLUSTER.backward, head_dim=72),
        replace(CLUSTER.backward, save="states"),
        replace(CLUSTER.backward, tf32=True),
        ALTERNATING.backward,
        CLUSTER.forward,
        CLUSTER,
    ],
)
def test_plans_of_different_calls_do_not_go_together(other):
    with pytest.raises(ValueError, match=r"do not go together: |no plan of a backward kernel"):
        Plan(BLOCK.forward, other)


def test_it_is_frozen_and_hashable():
    plan = Plan(BLOCK.forward, CLUSTER.backward)
    assert len({plan, replace(plan), BLOCK}) == 2
    with pytest.raises(FrozenInstanceError):
        plan.forward = CLUSTER.forward


def test_double_precision_is_not_mixed():
    plan = plan_for(LSTM, replace(SHAPE, dtype="float64"), H200)
    assert plan.variant == "alternating"
