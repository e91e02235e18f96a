"""Plans of all kinds: within every limit, monotone in resources, refused with reasons."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import replace

import pytest
import rnnc
from hypothesis import given, settings
from hypothesis import strategies as st
from rnnc.codegen.cuda.block.search import largest_block_dim
from rnnc.codegen.cuda.limits import KIB, PRESETS, limits_of
from rnnc.codegen.cuda.mma import K_TILE_BYTES
from rnnc.codegen.cuda.planner import plan_for, plans_for, plans_of_kind
from rnnc.codegen.cuda.refusal import Tried
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.layout import layout_of
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import DIRECTIONS, PlanError, Shape

from ...one_stage import ONE_STAGE

H200 = limits_of("H200")
quick = settings(max_examples=15, deadline=None)

cells = st.sampled_from([rnnc.cells.get(name) for name in ONE_STAGE])
shapes = st.builds(
    Shape,
    heads=st.integers(1, 64),
    head_dim=st.integers(1, 160),
    batch=st.sampled_from([1, 3, 16, 17, 500]),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
)


large_shapes = st.builds(
    Shape,
    heads=st.sampled_from([1, 2, 5]),
    head_dim=st.integers(1, 2100),
    batch=st.sampled_from([1, 16, 33, 256]),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
)
KINDS = ("block", "cluster", "grid", "alternating")


@st.composite
def gpus(draw):
    """A GPU that nobody sells."""
    per_block = draw(st.integers(8, 227)) * KIB
    return replace(
        draw(st.sampled_from(PRESETS)),
        multiprocessors=draw(st.integers(1, 200)),
        registers=draw(st.sampled_from([16, 32, 64, 128])) * KIB,
        registers_per_thread=draw(st.sampled_from([63, 128, 255])),
        threads_per_block=draw(st.sampled_from([128, 512, 1024])),
        cluster=draw(st.sampled_from([1, 8, 16])),
        shared_per_block=per_block,
        shared_per_multiprocessor=per_block + draw(st.integers(1, 64)) * KIB,
    )


def block_or_none(cell, shape, limits):
    try:
        return plan_for(cell, shape, limits, "block")
    except PlanError:
        return None


@given(cells, shapes, gpus())
@quick
def test_a_plan_stays_within_every_limit(cell, shape, limits):
    plan = block_or_none(cell, shape, limits)
    if plan is None:
        return
    # Counted again from the meaning of the fields, not from the constraints.
    matrix = len(layout_of(cell).pair_gates) * shape.head_dim**2 * shape.element_bytes
    for kernel in plan.kernels.values():
        threads, blocks = 32 * kernel.warps, kernel.blocks_per_multiprocessor
        assert threads <= limits.threads_per_block
        assert kernel.matrix_registers < kernel.registers <= limits.registers_per_thread
        assert threads * kernel.registers * blocks <= limits.registers
        assert threads * kernel.matrix_registers * 4 >= matrix, "all of R is on chip"
        assert kernel.shared <= limits.shared_per_block
        assert blocks * (kernel.shared + KIB) <= limits.shared_per_multiprocessor
        assert kernel.ahead >= 2
    assert plan.forward.rows == plan.backward.rows
    assert plan.forward.rows in (4, 8)
    assert 8 * plan.forward.unit_groups * plan.forward.warps >= shape.head_dim
    assert 16 * plan.backward.warps >= shape.head_dim


@given(cells, shapes, gpus(), st.integers(1, 200))
@quick
def test_more_room_never_takes_a_plan_away(cell, shape, limits, more):
    if block_or_none(cell, shape, limits) is None:
        return
    for larger in (
        replace(limits, registers=limits.registers * 2),
        replace(limits, registers_per_thread=255),
        replace(limits, threads_per_block=1024),
        replace(limits, multiprocessors=limits.multiprocessors + more),
        replace(
            limits,
            shared_per_block=limits.shared_per_block + more * KIB,
            shared_per_multiprocessor=limits.shared_per_multiprocessor + more * KIB,
        ),
    ):
        assert block_or_none(cell, shape, larger) is not None, larger


@given(cells, shapes, gpus())
@quick
def test_a_smaller_head_fits_where_a_larger_one_does(cell, shape, limits):
    if block_or_none(cell, shape, limits) is None:
        return
    for dim in {1, (shape.head_dim + 1) // 2, max(shape.head_dim // 8 * 8, 1)}:
        assert block_or_none(cell, replace(shape, head_dim=dim), limits) is not None, dim


@given(cells, shapes, st.sampled_from(PRESETS))
@settings(max_examples=12, deadline=None)
def test_a_refusal_names_what_binds_and_the_largest_head_that_fits(cell, shape, limits):
    largest = largest_block_dim(Tried(cell, limits), shape.dtype)
    shape = replace(shape, head_dim=largest + 8)
    if shape.head_dim > 1024:  # a cell without recurrent matrices is bound by its threads alone
        return
    with pytest.raises(PlanError) as refused:
        plan_for(cell, shape, limits, "block")
    text = str(refused.value)
    assert f"block plan of {cell.name} for {shape} on {limits.name}\n" in text
    assert f"wanted: a head dim of at most {largest}\n" in text
    assert f'write:  head_dim={largest}, or variant="alternating"' in text
    assert re.search("registers|ahead|shared memory|every unit has a warp", text)
    fitting = replace(shape, head_dim=largest)
    assert plan_for(cell, fitting, limits, "block").variant == "block"


@given(cells, shapes, gpus())
@quick
def test_auto_always_finds_a_plan_and_says_why_it_is_no_block(cell, shape, limits):
    plan = plan_for(cell, shape, limits)
    if plan.variant == "alternating" and block_or_none(cell, shape, limits) is None:
        assert re.search(r"a head dim of at most [1-9]|no head dim fits", plan.binding)
        assert plan.binding in str(plan)


# All plans of a shape take seconds.
@pytest.mark.parametrize("examples", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_auto_is_the_cheapest_of_all_plans_and_each_variant_s_the_cheapest_of_its_kind(examples):
    drawn = given(cells, shapes, gpus())(auto_is_the_cheapest)
    settings(max_examples=examples, deadline=None)(drawn)()


def auto_is_the_cheapest(cell, shape, limits):
    plans = plans_for(cell, shape, limits)
    costs = [sum(plan.costs) for plan in plans]
    assert costs == sorted(costs)
    taken = plan_for(cell, shape, limits)
    likes = []
    for kind in KINDS:
        with suppress(PlanError):
            likes += plans_of_kind(kind, cell, shape, limits, for_auto=True)
    best = min(likes, key=lambda plan: sum(plan.costs))
    if taken.variant == best.variant == "alternating":
        assert replace(taken.forward, binding="") == best.forward
        assert replace(taken.backward, binding="") == best.backward
    elif best.variant == "alternating":
        assert sum(taken.costs) < 0.95 * sum(best.costs)
    else:
        # Another kernel in a direction costs clearly less than that direction of the best pair.
        for direction, cost, usual in zip(DIRECTIONS, taken.costs, best.costs, strict=True):
            same = getattr(taken, direction) == getattr(best, direction)
            assert same or cost < 0.95 * usual
    for variant in KINDS:
        mine = [plan for plan in plans if plan.variant == variant]
        if mine:
            assert plan_for(cell, shape, limits, variant) == mine[0]
        else:
            with pytest.raises(PlanError, match="wanted: "):
                plan_for(cell, shape, limits, variant)


@given(cells, large_shapes, gpus())
@quick
def test_plans_of_shared_heads_stay_within_every_limit(cell, shape, limits):
    pairs = len(layout_of(cell).pair_gates)
    for plan in plans_for(cell, shape, limits):
        if plan.variant not in ("cluster", "grid"):
            continue
        grid = plan.variant == "grid"
        for kernel in plan.kernels.values():
            assert kernel.rows % 8 == 0
            assert kernel.threads <= limits.threads_per_block
            assert kernel.matrix_registers < kernel.registers <= limits.registers_per_thread
            assert kernel.threads * kernel.registers <= limits.registers
            assert kernel.shared <= limits.shared_per_block
            assert kernel.cluster <= limits.cluster
            blocks = kernel.blocks if grid else kernel.cluster
            assert blocks % kernel.cluster == 0
            assert blocks * kernel.units >= shape.head_dim, "every unit has a block"
            held = kernel.threads * kernel.matrix_registers * 4 + kernel.shared
            held += kernel.streamed_bytes if grid else 0
            matrix = pairs * shape.head_dim**2 * shape.element_bytes
            assert blocks * held >= matrix, "all of R is there"
            if grid:
                resident = shape.heads * kernel.groups * blocks
                assert resident <= limits.multiprocessors, "blocks that wait are on the chip"
                k_tiles = math.ceil(shape.head_dim * shape.element_bytes / K_TILE_BYTES)
                assert kernel.exchange_k_tiles >= k_tiles


def test_a_gpu_without_clusters_shares_large_heads_over_the_chip():
    a100 = limits_of("A100")
    with pytest.raises(PlanError, match="wanted: a GPU with clusters"):
        plan_for(rnnc.cells.lstm, Shape(1, 512), a100, "cluster")
    assert plan_for(rnnc.cells.lstm, Shape(1, 512), a100).variant == "grid"


@given(cells, shapes, gpus(), st.integers(1, 300))
@quick
def test_what_is_compiled_does_not_depend_on_the_steps(cell, shape, limits, steps):
    plan = block_or_none(cell, shape, limits)
    other = block_or_none(cell, replace(shape, steps=steps), limits)
    if plan is None:
        assert other is None
    else:
        assert other.kernels == plan.kernels


def test_how_many_groups_run_at_once_is_no_part_of_a_grid_s_text():
    plan = plan_for(rnnc.cells.lstm, Shape(1, 256), H200, "grid")
    other = Plan(
        *(replace(kernel, groups=kernel.groups + 1) for kernel in (plan.forward, plan.backward))
    )
    assert other.forward.as_compiled() == plan.forward.as_compiled()
    codes = {cuda_source(rnnc.cells.lstm, p).code for p in (plan, other)}
    assert len(codes) == 1


@pytest.mark.parametrize("limits", PRESETS, ids=lambda limits: limits.name)
def test_the_target_shape_has_a_block_on_every_gpu(limits):
    for name in ("lstm", "slstm", "gru"):
        plan = plan_for(rnnc.cells.get(name), Shape(heads=12, head_dim=64), limits, "block")
        assert plan.arch == limits.arch


def test_a_block_plan_prints_its_sizes_costs_and_what_binds():
    text = str(plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), H200, "block"))
    assert text.startswith("block (sm_90, bfloat16, head dim 64), saves gates for the backward\n")
    for direction in ("forward", "backward"):
        (line,) = [s for s in text.splitlines() if s.startswith(f"  {direction}: ")]
        assert re.search(
            r"\d+ warps, \d+ registers per thread \(\d+ hold R\), \d+ bytes of shared memory", line
        )
        assert re.search(r"about [1-9]\d* ns per step; binds: registers: ", line)


def test_an_alternating_plan_prints_its_costs():
    text = str(plan_for(rnnc.cells.lstm, Shape(heads=1, head_dim=4096), H200, "auto"))
    assert text.startswith("alternating (sm_90, bfloat16), saves gates")
    assert len(re.findall(r"about [1-9]\d* ns per step", text)) == 2
    assert re.search(r"steps per CUDA graph", text)
    assert re.search(
        r"binds: a block wants a head dim of at most \d+;"
        r" a cluster wants a head dim of at most \d+; a grid wants a head dim of at most \d+",
        text,
    )


def test_double_precision_has_no_matrix_instructions():
    shape = Shape(heads=2, head_dim=8, dtype="float64")
    with pytest.raises(PlanError, match=r'found:  float64\n.*\n  write:  variant="alternating"'):
        plan_for(rnnc.cells.lstm, shape, H200, "block")
    assert plan_for(rnnc.cells.lstm, shape, H200).variant == "alternating"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"variant": "fused"}, r"found:  variant='fused'\n  wanted: one of auto, block, .*\n  w"),
        ({"save": "all"}, r"found:  save='all'\n  wanted: one of gates, states\n  write:  save="),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(options, said):
    with pytest.raises(PlanError, match=said):
        plan_for(rnnc.cells.lstm, Shape(heads=1, head_dim=8), H200, **options)
    with pytest.raises(rnnc.TensorError, match="one of"):
        rnnc.RNN(rnnc.cells.lstm, 4, 8, **options)


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ({"heads": 0}, "heads=0"),
        ({"head_dim": -1}, "head_dim=-1"),
        ({"batch": 2.0}, "batch=2.0"),
        ({"steps": True}, "steps=True"),
        ({"dtype": "int8"}, "dtype='int8'"),
    ],
)
def test_wrong_shapes(sizes, found):
    with pytest.raises(PlanError, match=f"found:  {re.escape(found)}"):
        Shape(**{"heads": 1, "head_dim": 8, **sizes})


def test_estimates_grow_with_the_work():
    def nanoseconds(**sizes):
        shape = Shape(**{"heads": 12, "head_dim": 64, "batch": 16, **sizes})
        return sum(plan_for(rnnc.cells.lstm, shape, H200, "block").nanoseconds)

    assert nanoseconds() < nanoseconds(head_dim=96)
    assert nanoseconds() < nanoseconds(batch=16 * math.ceil(132 / 12) * 8)
    assert nanoseconds(batch=1) <= nanoseconds()
