"""Two plans, one for each direction: only where they gain, and always of one call."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from itertools import product

import pytest
import rnnc
from hypothesis import given, settings
from hypothesis import strategies as st
from rnnc.codegen.cuda.alternating.plan import AlternatingPlan
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.mixed_plan import LEAST_GAIN, MixedPlan, cheapest
from rnnc.codegen.cuda.mixed_source import source_for
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.shape import DIRECTIONS, Shape

H200 = limits_of("H200")
LSTM = rnnc.cells.lstm
SHAPE = Shape(12, 64)
BLOCK, CLUSTER, GRID = (plan_for(LSTM, SHAPE, H200, v) for v in ("block", "cluster", "grid"))
ALTERNATING = plan_for(LSTM, SHAPE, H200, "alternating")

cells = st.sampled_from([rnnc.cells.get(name) for name in rnnc.cells.names()])
shapes = st.builds(
    Shape,
    heads=st.sampled_from([1, 3, 12, 48]),
    head_dim=st.sampled_from([16, 40, 64, 96, 128, 256]),
    batch=st.sampled_from([1, 16, 17, 128]),
    dtype=st.sampled_from(["bfloat16", "float16", "float32", "float64"]),
)


def fused(cell, shape, limits, **options):
    """The fused plans that `auto` takes, all that there are."""
    return [
        plan
        for plan in plans_for(cell, shape, limits, **options)
        if not isinstance(plan, AlternatingPlan) and not getattr(plan, "streams", False)
    ]


@given(cells, shapes, st.sampled_from(PRESETS), st.sampled_from(["gates", "states"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_auto_mixes_the_best_of_two_plans_and_only_where_that_gains(
    cell, shape, limits, save, tf32
):
    options = {"save": save, "tf32": tf32}
    plan = plan_for(cell, shape, limits, **options)
    every = fused(cell, shape, limits, **options)
    others = plan_for(cell, shape, limits, "alternating", **options)
    best = min(sum(p.nanoseconds) for p in (*every, others))
    if isinstance(plan, MixedPlan):
        assert sum(plan.nanoseconds) < (1 - LEAST_GAIN) * best
        assert plan.forward_plan in every
        assert plan.backward_plan in every
        assert plan.nanoseconds[0] == min(p.nanoseconds[0] for p in every)
        assert plan.nanoseconds[1] == min(p.nanoseconds[1] for p in every)
        assert (plan.save, plan.dtype, plan.head_dim) == (save, shape.dtype, shape.head_dim)
        assert (plan.arch, plan.tf32) == (limits.arch, tf32)
    else:
        assert sum(plan.nanoseconds) == best
        both = product(every, every)
        mixed = min((f.nanoseconds[0] + b.nanoseconds[1] for f, b in both), default=math.inf)
        assert mixed >= (1 - LEAST_GAIN) * best


def test_the_shapes_of_the_benchmark_that_are_mixed():
    mixed = plan_for(LSTM, SHAPE, H200)
    assert mixed == MixedPlan(BLOCK, CLUSTER)
    assert mixed.nanoseconds == (BLOCK.nanoseconds[0], CLUSTER.nanoseconds[1])
    assert isinstance(plan_for(rnnc.cells.slstm, SHAPE, H200), MixedPlan)
    # Two phases hide a forward's exchange; a backward takes the batch in turns.
    turns = plan_for(LSTM, Shape(1, 2048), H200)
    assert turns.variant == "grid+grid"
    assert (turns.forward_plan.phases, turns.backward_plan.phases) == (2, 1)
    for shape in (Shape(48, 16), Shape(12, 64, 128), Shape(6, 128), Shape(1, 768)):
        assert not isinstance(plan_for(LSTM, shape, H200), MixedPlan)


@pytest.mark.parametrize("variant", ["block", "cluster", "grid", "alternating"])
def test_a_variant_that_is_named_is_not_mixed(variant):
    plan = plan_for(LSTM, SHAPE, H200, variant)
    assert plan.variant == variant
    assert [plan.of(direction) for direction in DIRECTIONS] == [plan, plan]


def test_the_least_gain_and_what_is_never_mixed():
    plans = (BLOCK, CLUSTER, ALTERNATING)
    assert cheapest(plans, [(40, 60), (60, 55), (200, 200)]) == BLOCK, "exactly 5 % less"
    assert cheapest(plans, [(40, 60), (60, 54), (200, 200)]) == MixedPlan(BLOCK, CLUSTER)
    assert cheapest(plans, [(60, 50), (40, 70), (200, 200)]) == MixedPlan(CLUSTER, BLOCK)
    assert cheapest(plans, [(40, 60), (60, 60), (10, 200)]) == BLOCK
    assert cheapest(plans, [(40, 60), (60, 60), (20, 20)]) == ALTERNATING
    # Two that are dearer by themselves than one that is not mixed may still beat it.
    assert cheapest(plans, [(40, 90), (90, 40), (50, 50)]) == MixedPlan(BLOCK, CLUSTER)
    assert cheapest(plans, [(0, 0), (0, 0), (0, 0)]) == BLOCK
    assert cheapest((ALTERNATING,), [(1, 1)]) == ALTERNATING


def test_it_prints_each_direction_with_its_plan():
    plan = MixedPlan(BLOCK, GRID)
    assert str(plan).splitlines() == [
        "block+grid (sm_90, bfloat16, head dim 64): the forward of one plan (block) and the"
        " backward of another (grid)",
        f"  forward:  {BLOCK.mapping}; {BLOCK.forward}; about {BLOCK.nanoseconds[0]} ns a step",
        f"  backward: {GRID.mapping}; {GRID.backward}; about {GRID.nanoseconds[1]} ns a step",
        f"  keeps gates for the backward; binds: block: {BLOCK.binding}; grid: {GRID.binding}",
    ]


@pytest.mark.parametrize(
    "other",
    [
        replace(CLUSTER, arch="sm_100"),
        replace(CLUSTER, dtype="float16"),
        replace(CLUSTER, head_dim=72),
        replace(CLUSTER, save="states"),
        replace(CLUSTER, tf32=True),
        ALTERNATING,
        BLOCK.forward,
    ],
)
def test_plans_of_different_calls_are_not_mixed(other):
    for pair in ((BLOCK, other), (other, BLOCK)):
        with pytest.raises(ValueError, match="plans that cannot be mixed: "):
            MixedPlan(*pair)


def test_it_is_frozen_and_hashable():
    plan = MixedPlan(BLOCK, CLUSTER)
    assert len({plan, MixedPlan(BLOCK, CLUSTER), MixedPlan(CLUSTER, BLOCK)}) == 2
    with pytest.raises(FrozenInstanceError):
        plan.forward_plan = CLUSTER


def test_double_precision_is_not_mixed():
    plan = plan_for(LSTM, replace(SHAPE, dtype="float64"), H200)
    assert isinstance(plan, AlternatingPlan)


def test_its_source_is_that_of_both_plans():
    source = source_for(LSTM, MixedPlan(BLOCK, CLUSTER))
    assert source.kernels == {
        "rnnc_forward": source_for(LSTM, BLOCK),
        "rnnc_backward": source_for(LSTM, CLUSTER),
    }
