"""Scan plans: within every limit, chosen, compiled without spills."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.mma import RESERVED_SHARED
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.scan.search import scan_kernels, scan_tilings
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.request import PlanRequest
from rnnc.codegen.shape import DIRECTIONS, SAVES, Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_plan

from ....walk_calls import cells_without_r, gated, scanned

H200, HGRN = limits_of("H200"), rnnc.cells.hgrn
BOTH = [name for name in cells_without_r() if scanned(rnnc.cells.get(name), "forward")]
DTYPES = ("bfloat16", "float16", "float32", "float64")
FEW_SPILLS = 256  # bytes: of more "auto" compiles another plan


def in_parts(parts, direction, shape=Shape(4, 128, 16)):
    """The plan of HGRN with so many parts of a warp; 0 for tiles in turns."""
    found = scan_kernels(PlanRequest(HGRN, shape, H200), direction)
    (plan,) = (p for p in found if p.sequential * p.parts == parts)
    return plan


shapes = st.builds(
    Shape,
    heads=st.integers(1, 8),
    head_dim=st.integers(1, 400),
    batch=st.sampled_from([1, 3, 16, 200, 4096]),
    dtype=st.sampled_from(DTYPES),
)


@given(st.sampled_from(BOTH), shapes, st.sampled_from(PRESETS), st.sampled_from(SAVES))
@example("s5", Shape(1, 16, 1, dtype="float32"), limits_of("A100"), "gates")
@settings(max_examples=40, deadline=None)
def test_every_size_of_every_cell_has_plans_within_the_limits(name, shape, limits, save):
    cell = rnnc.cells.get(name)
    for direction in DIRECTIONS:
        for plan in scan_tilings(PlanRequest(cell, shape, limits, save), direction):
            block = replace(plan, masked=True).shared
            assert block <= limits.shared_per_block
            blocks = plan.blocks_per_multiprocessor
            assert blocks * (block + RESERVED_SHARED) <= limits.shared_per_multiprocessor
            assert blocks * plan.threads * plan.registers <= limits.registers
            assert plan.nanoseconds > 0


@pytest.mark.parametrize("steps", [0, 1, 191, 192, 193, 1_000_000])
def test_tiles_cover_all_steps_and_their_records_are_small(steps):
    """At most 24 bytes per channel, carried state and chunk, and the sums of each tile."""
    for direction in DIRECTIONS:
        kernel = in_parts(0, direction)
        tiles = kernel.tiles(steps)
        assert (tiles - 1) * kernel.tile_steps < max(steps, 1) <= tiles * kernel.tile_steps
        assert kernel.tile_record_bytes <= 24 * 32
        assert kernel.parts_of_sums(16, steps) == 16 * tiles
        assert kernel.parts_of_resets(steps) == tiles
        counted = kernel.buffer_bytes(16, 4)
        needed = tiles * kernel.groups(16, 4, 128) * kernel.tile_record_bytes
        assert needed <= counted.fixed + (steps or 1) * counted.per_step


@pytest.mark.parametrize("parts", [1, 2])
def test_blocks_that_take_all_tiles_leave_nothing_for_others(parts):
    for direction in DIRECTIONS:
        kernel = in_parts(parts, direction)
        assert kernel.groups(16, 4, 128) == 256 * parts
        assert kernel.launch_shape.waits_for == "none"
        assert kernel.parts_of_sums(16, 9000) == 16
        assert kernel.parts_of_resets(9000) == 1
        assert kernel.buffer_bytes(16, 4) == (0, 0)


def test_auto_takes_a_scan_where_units_are_few_and_steps_many():
    def taken(cell, *shape, **options):
        return plan_for(cell, Shape(*shape, **options), H200).variant

    assert taken(HGRN, 4, 512, 1, 65536) == taken(HGRN, 1, 256, 1, 131072) == "scan"
    assert taken(HGRN, 1, 64, 1, 4096, dtype="float64") == "scan"
    assert taken(rnnc.cells.sru, 1, 64, 4, 4096) == "walk+scan"
    assert taken(HGRN, 4, 128, 16, 16384) == taken(rnnc.cells.lru, 1, 512, 16, 16384) == "scan"
    # As many units as fill the chip by a thread each, or few steps.
    assert taken(rnnc.cells.qrnn, 1, 1024, 64) == taken(HGRN, 1, 128, 1, 64) == "walk"


def test_blocks_take_all_tiles_where_there_are_enough_of_them():
    """In parts, where there are half as many."""

    def parts(*shape):
        plan = plan_for(HGRN, Shape(*shape), H200, "scan").forward
        return plan.sequential * plan.parts

    sizes = [(1, 256, 1, 131072), (4, 512, 1, 65536), (4, 128, 16, 16384)]
    assert [parts(*size) for size in sizes] == [0, 2, 1]


def test_one_binary_serves_all_sizes():
    first = plan_for(HGRN, Shape(4, 128, 16), H200, "scan")
    for shape in (Shape(3, 160, 16), Shape(1, 512, 15, 100)):
        other = plan_for(HGRN, shape, H200, "scan")
        for direction in DIRECTIONS:
            a, b = getattr(first, direction), getattr(other, direction)
            assert a != b
            assert a.as_compiled() == b.as_compiled()
            assert kernel_source(HGRN, a).code == kernel_source(HGRN, b).code


def test_a_kernel_that_spills_may_have_more_registers():
    plan = in_parts(1, "backward", Shape(4, 128, 64))
    found = []
    while plan is not None:
        found.append((plan.blocks_per_multiprocessor, plan.registers))
        plan = plan.with_more_registers(H200)
    assert found == [(4, 128), (2, 255)]


def with_more_registers(plan):
    """Blocks, warps and registers of a plan of tiles in turns, and of those that follow it."""
    found = []
    while plan is not None:
        found.append((plan.blocks_per_multiprocessor, plan.warps, plan.registers))
        plan = plan.with_more_registers(H200)
    return found


def test_tiles_in_turns_that_spill_have_fewer_warps():
    """Of one block that has the SM already; a thread then has more registers."""
    plan = in_parts(0, "forward", Shape(4, 128, 16, dtype="float32"))
    assert with_more_registers(plan) == [(1, 16, 128), (1, 12, 168), (1, 8, 255)]


def test_two_blocks_take_tiles_in_turns_where_threads_have_many_steps():
    """Those of fewer steps, and of numbers that take more registers, have an SM for themselves."""
    for direction in DIRECTIONS:
        plan = in_parts(0, direction, Shape(4, 128, 16))
        assert with_more_registers(plan) == [(2, 8, 128), (1, 8, 255)]
        assert plan.chunk >= 16
    few = scan_kernels(PlanRequest(rnnc.cells.lru, Shape(1, 64), H200), "backward")
    assert {(p.warps, p.chunk) for p in few if not p.sequential} == {(16, 8)}


def compiled():
    quick = [("hgrn", "bfloat16", False), ("lru", "float32", True), ("gated", "float64", True)]
    yield from quick
    for name in BOTH:
        for dtype in DTYPES:
            for masked in (False, True):
                case = name, dtype, masked
                if case not in quick:
                    yield pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "dtype", "masked"), [*compiled()])
def test_kernels_compile_without_many_spills(name, dtype, masked):
    cupy_nvrtc()
    cell = gated if name == "gated" else rnnc.cells.get(name)
    request = PlanRequest(cell, Shape(2, 64, 64, dtype=dtype), H200, save="states")
    for direction in DIRECTIONS:
        for plan in scan_kernels(request, direction):
            assert spills_of_a_call(cell, replace(plan, masked=masked)) <= FEW_SPILLS


def spills_of_a_call(cell, plan):
    """The bytes that are spilled by the plan, or by the next one where that spills many."""
    (report,) = compile_plan(cell, plan).reports.values()
    assert report.registers <= plan.registers
    if report.spills > FEW_SPILLS:
        plan = plan.with_more_registers(H200)
        (report,) = compile_plan(cell, plan).reports.values()
        assert report.registers <= plan.registers
    return report.spills
