"""Walk plans: within every limit, chosen, refused with reasons, compiled without spills."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from hypothesis import given, settings
from hypothesis import strategies as st
from rnnc import Gate, State, gate, sigmoid, tanh
from rnnc.codegen.cuda.kinds import best_tilings
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.mma import RESERVED_SHARED
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.cuda.walk.search import walk_tilings
from rnnc.codegen.plan import Plan
from rnnc.codegen.request import PlanRequest
from rnnc.codegen.shape import DIRECTIONS, SAVES, PlanError, Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_plan

from ....walk_calls import cells_without_r, mixed

H200 = limits_of("H200")
HGRN = rnnc.cells.hgrn
NAMES = cells_without_r()
DTYPES = ("bfloat16", "float16", "float32", "float64")

shapes = st.builds(
    Shape,
    heads=st.integers(1, 8),
    head_dim=st.integers(1, 400),
    batch=st.sampled_from([1, 3, 16, 200, 4096]),
    dtype=st.sampled_from(DTYPES),
)


@rnnc.cell
def called(h: State, *, f: Gate = gate(recurrent=False), n: Gate = gate(recurrent="diagonal")):
    """A gate without a matrix that waits for a value of the step."""
    return sigmoid(f) * h + tanh(n(sigmoid(f) * h))


def walk(cell, shape, limits=H200, **options):
    return plan_for(cell, shape, limits, "walk", **options)


@given(st.sampled_from(NAMES), shapes, st.sampled_from(PRESETS), st.sampled_from(SAVES))
@settings(max_examples=40, deadline=None)
def test_every_size_of_every_cell_has_plans_within_the_limits(name, shape, limits, save):
    cell = rnnc.cells.get(name)
    for direction in DIRECTIONS:
        for plan in walk_tilings(PlanRequest(cell, shape, limits, save), direction):
            assert shape.head_dim % plan.units == 0
            masked = replace(plan, masked=True)
            block = masked.shared + plan.reset_bytes(cell)
            assert block <= limits.shared_per_block
            blocks = plan.blocks_per_multiprocessor
            assert blocks * (block + RESERVED_SHARED) <= limits.shared_per_multiprocessor
            assert blocks * plan.threads * plan.registers <= limits.registers
            threads = plan.blocks(shape.batch, shape.heads, shape.head_dim) * plan.threads
            assert 0 <= threads - shape.batch * shape.heads * shape.head_dim // plan.units < 32
            assert plan.nanoseconds > 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [("lstm", "R_i, R_f, R_z and R_o multiply h"), ("fastgrnn", "R_g multiplies h")],
)
def test_a_cell_with_matrices_is_refused(name, reason):
    with pytest.raises(PlanError) as refused:
        walk(rnnc.cells.get(name), Shape(1, 64))
    assert str(refused.value) == (
        f"walk plan of {name} for 1 x 64, batch 16, 1024 steps, bfloat16\n"
        f"  found:  {reason}\n"
        "  wanted: a cell whose units read their own past alone\n"
        '  write:  variant="auto"'
    )


def test_a_cell_with_stages_is_refused():
    with pytest.raises(PlanError, match="a product with a value of the step"):
        walk(called, Shape(1, 64))


@pytest.mark.parametrize("name", ["hgrn", "mingru", "minlstm", "indrnn"])
def test_auto_takes_it_where_it_is_the_cheapest(name):
    cell = rnnc.cells.get(name)
    for shape in (Shape(4, 128, 200), Shape(12, 64, 200), Shape(1, 64, 1, 64)):
        assert plan_for(cell, shape, H200).variant == "walk"
    assert plan_for(cell, Shape(1, 512, 256), H200).variant == "walk"
    assert plan_for(rnnc.cells.lstm, Shape(12, 64), H200).variant == "block+cluster"


def test_a_function_in_the_chain_takes_longer_in_float32():
    """The states of a brc wait for tanh of the states; those of minGRU and IndRNN do not."""

    def took(name, dtype="bfloat16"):
        plan = walk(rnnc.cells.get(name), Shape(1, 64, 1, dtype=dtype))
        return plan.forward.nanoseconds

    assert took("indrnn") <= took("mingru") < took("brc") < took("brc", "float32")


def test_one_binary_serves_all_sizes():
    first = walk(HGRN, Shape(4, 128, 16))
    for shape in (Shape(3, 96, 5), Shape(1, 512, 16)):
        other = walk(HGRN, shape)
        for direction in DIRECTIONS:
            a, b = getattr(first, direction), getattr(other, direction)
            assert a != b
            b = replace(b, blocks_per_multiprocessor=a.blocks_per_multiprocessor)
            assert a.as_compiled() == b.as_compiled()
            assert kernel_source(HGRN, a).code == kernel_source(HGRN, b).code


def test_it_goes_with_kernels_of_other_kinds():
    shape = Shape(2, 64, 16)
    block, ours = (plans_of_kind(kind, HGRN, shape, H200)[0] for kind in ("block", "walk"))
    assert Plan(ours.forward, block.backward).variant == "walk+block"
    with pytest.raises(ValueError, match="head_dim"):
        Plan(ours.forward, walk(HGRN, Shape(2, 32, 16)).backward)


def test_many_units_share_threads_where_warps_stay_whole():
    """So that accesses are wide; float64 has no wider ones."""

    def units(batch, dim, dtype="bfloat16"):
        return walk(HGRN, Shape(1, dim, batch, dtype=dtype)).forward.units

    assert (units(16, 512), units(256, 512), units(256, 512, "float32")) == (1, 4, 2)
    assert (units(1024, 64), units(1024, 100), units(1024, 33), units(256, 512, "float64")) == (
        2,
        4,
        1,
        1,
    )


def test_measurements_try_further_sizes():
    request = PlanRequest(HGRN, Shape(4, 128, 16), H200)
    found = [plan for plan in best_tilings(request, "forward") if plan.kind == "walk"]
    assert len(found) == 5
    assert "states in registers" in str(found[0])


def kernels():
    """Cells, dtypes and masks that share the work of `make test` and `make test-slow`."""
    quick = {("mixed", "bfloat16"), ("qrnn", "float16"), ("ema", "float32"), ("brc", "float64")}
    for name in [*NAMES, "mixed"]:
        for dtype in DTYPES:
            marks = () if (name, dtype) in quick else pytest.mark.slow
            yield pytest.param(name, dtype, marks=marks)


@pytest.mark.parametrize(("name", "dtype"), kernels())
def test_kernels_compile_without_spills(name, dtype):
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    cell = mixed if name == "mixed" else rnnc.cells.get(name)
    plan = walk(cell, Shape(2, 64, 64, dtype=dtype))
    masked = plan.in_time("half", masked=True).with_stored_resets(cell, H200.shared_per_block)
    assert {masked.forward.resets, masked.backward.resets} == {"ahead"}
    for each in (plan, masked):
        for kernel in (each.forward, each.backward):
            (report,) = compile_plan(cell, kernel).reports.values()
            assert report.spills == 0
            assert report.registers <= kernel.registers
