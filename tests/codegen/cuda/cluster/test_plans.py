"""Cluster plans: within every limit, complete, and refused with reasons."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest
import rnnc
from hypothesis import given, settings
from hypothesis import strategies as st
from rnnc.codegen.cuda.cluster.problem import cluster_problem
from rnnc.codegen.cuda.cluster.search import largest_cluster_dim
from rnnc.codegen.cuda.limits import KIB, PRESETS, limits_of
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.cuda.refusal import Tried
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.layout import layout_of
from rnnc.codegen.shape import PlanError, Shape

from ....one_stage import ONE_STAGE

H200 = limits_of("H200")
CLUSTERED = [limits for limits in PRESETS if limits.cluster > 1]
cluster_plans = partial(plans_of_kind, "cluster")
quick = settings(max_examples=15, deadline=None)

cells = st.sampled_from([rnnc.cells.get(name) for name in ONE_STAGE])
shapes = st.builds(
    Shape,
    heads=st.integers(1, 8),
    head_dim=st.integers(9, 400),
    batch=st.sampled_from([1, 3, 16, 17, 200]),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
)


@st.composite
def gpus(draw):
    """A GPU that nobody sells."""
    per_block = draw(st.integers(16, 227)) * KIB
    return replace(
        draw(st.sampled_from(CLUSTERED)),
        multiprocessors=draw(st.integers(16, 200)),
        registers=draw(st.sampled_from([32, 64, 128])) * KIB,
        registers_per_thread=draw(st.sampled_from([128, 255])),
        threads_per_block=draw(st.sampled_from([128, 512, 1024])),
        shared_per_block=per_block,
        shared_per_multiprocessor=per_block + draw(st.integers(1, 64)) * KIB,
        cluster=draw(st.sampled_from([2, 4, 8, 16])),
    )


def cluster_plan(*asked):
    return cluster_plans(*asked)[0]


def plans_or_none(cell, shape, limits):
    try:
        return cluster_plans(cell, shape, limits)
    except PlanError:
        return None


@given(cells, shapes, gpus())
@quick
def test_every_plan_stays_within_every_limit(cell, shape, limits):
    # Counted again from the meaning of the fields, not from the constraints.
    matrix = len(layout_of(cell).pair_gates) * shape.head_dim**2 * shape.element_bytes
    for plan in plans_or_none(cell, shape, limits) or ():
        for kernel in plan.kernels.values():
            assert kernel.rows == 8
            blocks = kernel.blocks_per_multiprocessor
            assert kernel.cluster <= limits.cluster
            assert (kernel.cluster - 1) * kernel.units < shape.head_dim
            assert shape.head_dim <= kernel.cluster * kernel.units
            assert kernel.threads <= limits.threads_per_block
            assert kernel.matrix_registers < kernel.registers <= limits.registers_per_thread
            assert kernel.threads * kernel.registers * blocks <= limits.registers
            held = kernel.cluster * kernel.threads * kernel.matrix_registers * 4
            assert held >= matrix, "all of R is on chip"
            assert kernel.shared <= limits.shared_per_block
            assert blocks * (kernel.shared + KIB) <= limits.shared_per_multiprocessor
            assert kernel.ahead >= 2
        assert plan.forward.warps * 8 == plan.forward.units * plan.forward.splits
        assert plan.backward.units % 16 == 0
        assert plan.backward.splits == 1


@given(cells, shapes, gpus())
@quick
def test_all_plans_are_listed_once_the_cheapest_first(cell, shape, limits):
    plans = plans_or_none(cell, shape, limits)
    if plans is None:
        return
    sizes = [tuple(plan.kernels.values()) for plan in plans]
    assert len(set(sizes)) == len(sizes)
    costs = [sum(plan.costs) for plan in plans]
    assert costs == sorted(costs)
    assert cluster_plan(cell, shape, limits) == plans[0]


@given(cells, shapes, gpus(), st.integers(1, 100))
@quick
def test_more_room_never_takes_a_plan_away(cell, shape, limits, more):
    if plans_or_none(cell, shape, limits) is None:
        return
    for larger in (
        replace(limits, registers=limits.registers * 2),
        replace(limits, registers_per_thread=255),
        replace(limits, threads_per_block=1024),
        replace(limits, cluster=16),
        replace(
            limits,
            shared_per_block=limits.shared_per_block + more * KIB,
            shared_per_multiprocessor=limits.shared_per_multiprocessor + more * KIB,
        ),
    ):
        assert plans_or_none(cell, shape, larger) is not None, larger


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["lstm", "elman", "scrn", "indrnn"])
def test_a_refusal_names_what_binds_and_the_largest_head_that_fits(name, dtype):
    cell = rnnc.cells.get(name)
    largest = largest_cluster_dim(Tried(cell, H200), dtype)
    shape = Shape(heads=1, head_dim=largest + 16, dtype=dtype)
    with pytest.raises(PlanError) as refused:
        cluster_plan(cell, shape, H200)
    text = str(refused.value)
    assert f"cluster plan of {cell.name} for {shape} on H200\n" in text
    assert f"wanted: a head dim of at most {largest}\n" in text
    assert f'write:  head_dim={largest}, or variant="alternating"' in text
    assert re.search("registers|ahead|shared memory|a block|a warp", text)
    assert cluster_plan(cell, replace(shape, head_dim=largest), H200).forward.head_dim == largest


@pytest.mark.parametrize("gpu", ["A100", "RTX 4090"])
def test_a_gpu_without_clusters_is_named(gpu):
    with pytest.raises(PlanError, match=r"blocks of a cluster(.|\n)*wanted: a GPU with clusters"):
        cluster_plan(rnnc.cells.lstm, Shape(heads=6, head_dim=128), limits_of(gpu))


def test_double_precision_has_no_matrix_instructions():
    with pytest.raises(PlanError, match=r"found:  float64\n"):
        cluster_plan(rnnc.cells.lstm, Shape(heads=2, head_dim=64, dtype="float64"), H200)


@pytest.mark.parametrize(("heads", "dim"), [(6, 128), (3, 256), (1, 512)])
def test_the_target_shapes_have_a_cluster(heads, dim):
    for name in ("lstm", "gru"):
        plan = cluster_plan(rnnc.cells.get(name), Shape(heads=heads, head_dim=dim), H200)
        assert plan.forward.cluster >= dim // 32
        assert min(plan.forward.ahead, plan.backward.ahead) >= 4


def test_a_plan_prints_its_sizes_costs_and_what_binds():
    plan = cluster_plan(rnnc.cells.lstm, Shape(heads=3, head_dim=256), H200)
    text = str(plan)
    assert text.startswith(
        "cluster (sm_90, bfloat16, head dim 256), saves gates for the backward\n"
    )
    for direction in ("forward", "backward"):
        (line,) = [s for s in text.splitlines() if s.startswith(f"  {direction}: ")]
        assert re.search(r"\d+ blocks of \d+ units; \d+ warps, \d+ registers per thread", line)
        assert re.search(r"about [1-9]\d* ns per step; binds: registers: ", line)
    assert 'kPlanName[] = "lstm, cluster plan of head dim 256"' in source_of("lstm", plan).code


def source_of(name, plan):
    return cuda_source(rnnc.cells.get(name), plan)


@pytest.mark.parametrize("name", ONE_STAGE)
def test_every_cell_renders(name):
    for dtype in ("bfloat16", "float32"):
        plan = cluster_plan(
            rnnc.cells.get(name), Shape(heads=2, head_dim=40, dtype=dtype), H200, "states"
        )
        found = source_of(name, plan)
        included = set(re.findall(r'#include "([^"]+)"', found.code))
        assert included <= {header for header, _ in found.headers}
        assert "lib/kernels/cluster_forward.cuh" in included


def test_warps_share_all_of_k_and_no_more():
    model = cluster_problem(rnnc.cells.lstm, Shape(heads=1, head_dim=256), H200, "forward")
    model.require(model["splits"] > 1, "asked for")
    for found in model.solutions():
        assert found["k_tiles"] % 2 == 0  # eight k_tiles, two or four warps
        assert found["k_tiles"] * found["splits"] * 32 >= 256
        assert (found["k_tiles"] - 1) * found["splits"] * 32 < 256


def test_a_head_too_small_to_share_is_told_the_next_that_is_not():
    with pytest.raises(PlanError) as refused:
        cluster_plan(rnnc.cells.lstm, Shape(66_000, 8, 3), H200)
    assert "wanted: a head dim that blocks can share, such as 32\n" in str(refused.value)
    assert str(refused.value).endswith('  write:  head_dim=32, or variant="alternating"')
    assert cluster_plan(rnnc.cells.lstm, Shape(66_000, 32, 3), H200).forward.head_dim == 32
