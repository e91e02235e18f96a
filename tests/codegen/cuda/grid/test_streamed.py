"""Grid plans that stream a part of R exist only where no other plan fits, and say so."""

from __future__ import annotations

import rnnc
from hypothesis import given, settings
from hypothesis import strategies as st
from rnnc.codegen.cuda.grid.plan import RING_BYTES
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.mma import K_TILE_BYTES
from rnnc.codegen.cuda.planner import plan_for, plans_for, plans_of_kind
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import PlanError, Shape

H200 = limits_of("H200")
LSTM = rnnc.cells.lstm

cells = st.sampled_from(["elman", "gru", "lstm", "slstm", "scrn"]).map(rnnc.cells.get)
gpus = st.sampled_from(PRESETS)
shapes = st.builds(
    Shape,
    heads=st.integers(1, 2),
    head_dim=st.integers(900, 5000),
    batch=st.integers(1, 70),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
)


def grid_plan(*asked):
    return plans_of_kind("grid", *asked)[0]


def streams_of(plan):
    return any(kernel.streams for kernel in plan.kernels.values())


def found(cell, shape, limits, streams=True) -> tuple[Plan, ...]:
    try:
        return plans_of_kind("grid", cell, shape, limits, for_auto=not streams)
    except PlanError:
        return ()


@settings(max_examples=12, deadline=None)
@given(cells, shapes, gpus)
def test_what_is_streamed_fits_nowhere_else(cell, shape, limits):
    on_chip = found(cell, shape, limits, streams=False)
    every = found(cell, shape, limits)
    assert not any(streams_of(plan) for plan in on_chip)
    if on_chip:
        assert every == on_chip
        return
    for plan in every:
        assert streams_of(plan)
        assert (plan.forward.groups, plan.forward.phases) == (1, 1)
        for kernel in plan.kernels.values():
            chunk = 16 * K_TILE_BYTES * kernel.warps * kernel.tiles
            assert kernel.shared <= limits.shared_per_block
            assert kernel.threads * kernel.registers <= limits.registers
            assert kernel.matrix_registers < kernel.registers <= limits.registers_per_thread
            assert kernel.shared_k_tiles >= 0
            assert kernel.blocks * shape.heads <= limits.resident(kernel.cluster)
            assert kernel.streamed_bytes == chunk * kernel.streamed_k_tiles
            if kernel.streamed_k_tiles:
                assert kernel.shared + chunk > limits.shared_per_block
                assert kernel.shared >= chunk * kernel.shared_k_tiles + RING_BYTES * kernel.warps


def test_a_larger_head_streams_more_and_takes_longer():
    plans = [grid_plan(LSTM, Shape(1, dim), H200) for dim in (2048, 2304, 2560, 3072)]
    streamed = [plan.forward.blocks * plan.forward.streamed_bytes for plan in plans]
    assert [streams_of(plan) for plan in plans] == [False, True, True, True]
    assert streamed == sorted(streamed)
    costs = [sum(plan.costs) for plan in plans]
    assert costs == sorted(costs)


def test_the_plan_states_what_lies_where():
    plan = grid_plan(LSTM, Shape(1, 2560), H200)
    for kernel in plan.kernels.values():
        places = (
            f"8 warps of {kernel.k_tiles} k-tiles, {kernel.register_k_tiles} in registers,"
            f" {kernel.shared_k_tiles} in shared memory, {kernel.streamed_k_tiles} streamed;"
        )
        assert places in str(plan)
    assert "the rest of R streamed in every step" in cuda_source(LSTM, plan).code


def test_a_plan_that_does_not_stream_says_nothing_of_it():
    plan = grid_plan(LSTM, Shape(1, 2048), H200)
    assert plan.forward.shared_k_tiles > 0
    assert "stream" not in str(plan)
    assert f"{plan.forward.register_k_tiles} in registers; " in str(plan)


def test_auto_alternates_where_a_grid_would_stream():
    shape = Shape(1, 2560)
    assert streams_of(plan_for(LSTM, shape, H200, "grid"))
    auto = plan_for(LSTM, shape, H200)
    assert auto.variant == "alternating"
    assert "a grid wants a head dim of at most 2112" in auto.binding


def test_a_trial_may_choose_a_plan_that_streams():
    plans = plans_for(LSTM, Shape(1, 2560), H200)
    assert any(plan.variant == "grid" and streams_of(plan) for plan in plans)
