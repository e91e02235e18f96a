"""Alternating plans: which product they use, their sizes and their estimates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from hypothesis import given, settings
from hypothesis import strategies as st
from rnnc.codegen.cuda.limits import KIB, PRESETS, limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.layout import layout_of
from rnnc.codegen.shape import Shape

from ....one_stage import ONE_STAGE

H200 = limits_of("H200")


def plan_of(name="lstm", limits=H200, **sizes):
    return plan_for(rnnc.cells.get(name), Shape(**{"heads": 1, **sizes}), limits, "alternating")


@given(
    st.sampled_from(ONE_STAGE),
    st.sampled_from(PRESETS),
    st.builds(
        Shape,
        heads=st.integers(1, 64),
        head_dim=st.integers(1, 5000),
        batch=st.integers(1, 1000),
        dtype=st.sampled_from(["bfloat16", "float16", "float32", "float64"]),
    ),
)
@settings(max_examples=100, deadline=None)
def test_every_size_has_a_plan_and_every_plan_fits(name, limits, shape):
    cell = rnnc.cells.get(name)
    layout = layout_of(cell)
    plans = plans_of_kind("alternating", cell, shape, limits)
    assert sum(plan.forward.product == "library" for plan in plans) == 1
    chosen = plan_for(cell, shape, limits, "alternating")
    assert sum(chosen.costs) == min(sum(p.costs) for p in plans)
    for plan in plans:
        for kernel in (plan.forward, plan.backward):
            own = kernel.own
            if own is None:
                continue
            assert shape.element_bytes == 2
            assert layout.pair_gates
            assert kernel.threads == 32 * own.warps >= 8 * own.rows, "one item per thread"
            assert own.shared < 48 * KIB, "what a kernel has without asking for more"
            assert own.split <= limits.cluster
            assert own.ahead >= 1
            assert own.overlapped == (limits.capability >= (9, 0))


@pytest.mark.parametrize("name", ["lstm", "gru", "elman", "slstm", "cornn"])
def test_small_batches_of_short_numbers_multiply_themselves(name):
    assert plan_of(name, head_dim=768, batch=16).forward.product == "own"
    assert plan_of(name, head_dim=768, batch=16, dtype="float32").forward.product == "library"
    assert plan_of(name, head_dim=768, batch=512).forward.product == "library"


def test_a_cell_without_a_matrix_has_nothing_to_multiply():
    assert plan_of("indrnn", head_dim=768).forward.product == "library"


def test_more_rows_a_block_where_there_are_more():
    assert plan_of(head_dim=768, batch=16).forward.own.rows == 16
    assert plan_of(head_dim=768, batch=64).forward.own.rows == 32


def test_blocks_share_k_of_several_gates_where_there_are_clusters():
    splits = {
        n: plan_of(n, head_dim=768).backward.own.split for n in ("elman", "janet", "gru", "lstm")
    }
    assert splits == {"elman": 1, "janet": 2, "gru": 4, "lstm": 4}
    assert plan_of("lstm", limits_of("A100"), head_dim=768).backward.own.split == 1


def test_estimates_grow_with_the_work_and_shrink_with_overlap():
    small, tall, wide = (
        sum(plan_of(**sizes).nanoseconds)
        for sizes in (
            {"head_dim": 768},
            {"head_dim": 2048},
            {"head_dim": 768, "batch": 128},
        )
    )
    assert small < tall
    assert small < wide
    older = replace(H200, capability=(8, 0), cluster=1)
    assert sum(plan_of(limits=older, head_dim=768).nanoseconds) > small


def test_the_text_says_who_multiplies():
    own = str(plan_of(head_dim=768))
    assert "one kernel per step" in own
    assert "blocks of 8 units, 16 batch rows and 8 warps (clusters of 4 share K)" in own
    library = str(plan_of(head_dim=768, dtype="float32"))
    assert "a matrix product and a pointwise kernel per step" in library
    assert "product: matrix library" in library
