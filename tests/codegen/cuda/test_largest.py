"""The largest head dims that `rnnc limits` shows are those that the planner accepts."""

from __future__ import annotations

from itertools import product

import pytest
import rnnc
from rnnc.codegen.cuda.largest import largest_head_dims
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.shape import PlanError, Shape

FUSED = ("block", "cluster", "grid")
LSTM = rnnc.cells.lstm


# The first GPU of each architecture; the others in `make test-slow`.
FIRST = {limits.arch: limits for limits in reversed(PRESETS)}
every_gpu = pytest.mark.parametrize(
    "limits",
    [
        pytest.param(limits, marks=() if FIRST[limits.arch] is limits else pytest.mark.slow)
        for limits in PRESETS
    ],
    ids=lambda limits: limits.name,
)


def dims_of(cell, limits, dtype="bfloat16", heads=1):
    found = largest_head_dims(cell, limits, dtype, heads)
    assert tuple(found.dims) == FUSED
    return found.dims


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(g, marks=() if g.name in ("A100", "H100", "RTX 5090") else pytest.mark.slow)
        for g in PRESETS
    ],
    ids=lambda limits: limits.name,
)
def test_the_planner_takes_the_largest_and_refuses_the_next(limits, dtype):
    for variant, dim in dims_of(LSTM, limits, dtype).items():
        for batch in (1, 16, 64):
            if dim:
                plan_for(LSTM, Shape(1, dim, batch, dtype=dtype), limits, variant)
            larger = Shape(1, dim + 8, batch, dtype=dtype)
            with pytest.raises(PlanError):
                # A grid may stream what it cannot hold.
                plans_of_kind(variant, LSTM, larger, limits, for_auto=True)


@every_gpu
def test_beyond_the_largest_auto_alternates(limits):
    variant, dim = largest_head_dims(LSTM, limits).best
    assert variant == "grid"
    plan = plan_for(LSTM, Shape(1, dim + 8), limits)
    assert plan.variant == "alternating"
    assert f"a grid wants a head dim of at most {dim}" in plan.binding


def test_clusters_are_there_from_compute_capability_9_on():
    for limits in PRESETS:
        found = dims_of(LSTM, limits)
        assert bool(found["cluster"]) == (limits.capability >= (9, 0))
        assert found["block"] > 0
        assert found["grid"] > found["cluster"]


def test_a_larger_size_is_found_beyond_a_gap():
    limits = limits_of("RTX 5090")
    largest = largest_head_dims(LSTM, limits).dims["cluster"]
    for dim in range(largest + 8, 2 * largest, 8):
        with pytest.raises(PlanError):
            plan_for(LSTM, Shape(1, dim), limits, "cluster")


def test_several_heads_share_the_chip_of_a_grid():
    h200 = limits_of("H200")
    alone, four = dims_of(LSTM, h200), dims_of(LSTM, h200, heads=4)
    assert four["grid"] < alone["grid"]
    assert (four["block"], four["cluster"]) == (alone["block"], alone["cluster"])
    plan_for(LSTM, Shape(4, four["grid"]), h200, "grid")


def test_fewer_gates_and_shorter_numbers_leave_room():
    for gpu, variant in product(("A100", "H200"), FUSED):
        limits = limits_of(gpu)
        lstm, elman = dims_of(LSTM, limits), dims_of(rnnc.cells.elman, limits)
        assert elman[variant] > lstm[variant] or lstm[variant] == 0
        assert dims_of(LSTM, limits, "float32")[variant] <= lstm[variant]


def test_a_cell_without_matrices_has_nothing_to_share():
    found = dims_of(rnnc.cells.indrnn, limits_of("H200"))
    assert found["grid"] == 0
    assert found["block"] > 0


def test_wrong_heads():
    with pytest.raises(PlanError, match="found:  heads=0"):
        largest_head_dims(LSTM, PRESETS[0], heads=0)
