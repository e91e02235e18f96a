"""The kernels of block plans, compiled: no spills, registers as planned. No GPU."""

from __future__ import annotations

import os
from itertools import product

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import SAVES, PlanError, Shape
from rnnc.runtime.cuda import nvrtc

from ...one_stage import ONE_STAGE

ARCHS = {"sm_80": "A100", "sm_90a": "H200", "sm_100a": "B200", "sm_120": "RTX 5090"}
DIMS = [64, 128, 40, 96, 16]
DTYPES = ["bfloat16", "float32", "float16"]
# 4 and 8 batch rows a block, one and several blocks a multiprocessor.
BATCHES = [16, 512]
ALL = list(product(DIMS, DTYPES, BATCHES))


def ptx_of(source, arch):
    """The PTX of both translation units."""
    return "".join(nvrtc.ptx_of(unit, arch) for unit in source.units)


def in_turns(first):
    """Each cell on each architecture: in `make test` every tenth cell, on one of the four each."""
    return [
        pytest.param(name, arch, marks=() if i % 10 == first and turn == 0 else pytest.mark.slow)
        for i, name in enumerate(ONE_STAGE)
        for arch, turn in ((arch, (i // 4 + j) % len(ARCHS)) for j, arch in enumerate(ARCHS))
    ]


pytestmark = pytest.mark.usefixtures("compiler")
full = pytest.mark.skipif(
    not os.environ.get("RNNC_SLOW"), reason="tens of minutes: make test-slow, or RNNC_SLOW=1"
)


def plan_of(name, gpu, variant, dim, dtype, batch=16, save="gates"):
    shape = Shape(heads=12, head_dim=dim, batch=batch, dtype=dtype)
    return plan_for(rnnc.cells.get(name), shape, limits_of(gpu), variant, save=save)


def source_of(name, plan):
    return cuda_source(rnnc.cells.get(name), plan)


def case_of(name, arch):
    """One of `ALL` that has a block plan: others for each cell and architecture."""
    start = 7 * ONE_STAGE.index(name) + 11 * list(ARCHS).index(arch)
    for i in range(len(ALL)):
        dim, dtype, batch = ALL[(start + i) % len(ALL)]
        try:
            return plan_of(name, ARCHS[arch], "block", dim, dtype, batch, SAVES[(start + i) % 2])
        except PlanError:
            continue
    raise AssertionError(f"{name} has no block plan at all on {ARCHS[arch]}")


@pytest.mark.parametrize(("name", "arch"), in_turns(0))
def test_block_kernels_compile_as_planned(name, arch, compiles_as_planned):
    compiles_as_planned(source_of(name, case_of(name, arch)), arch)


@pytest.mark.parametrize(("name", "arch"), in_turns(1))
def test_alternating_kernels_compile_as_planned(name, arch, compiles_as_planned):
    turn = ONE_STAGE.index(name) + list(ARCHS).index(arch)
    dtype, save = [*DTYPES, "float64"][turn % 4], SAVES[turn // 4 % 2]
    plan = plan_of(name, ARCHS[arch], "alternating", 64, dtype, save=save)
    compiles_as_planned(source_of(name, plan), arch)


def test_the_turns_reach_every_dim_dtype_and_plan():
    plans = [case_of(name, "sm_90a") for name in ONE_STAGE]
    assert {(p.forward.head_dim, p.dtype) for p in plans} >= set(product([16, 40, 64], DTYPES))
    assert {p.forward.head_dim for p in plans} == set(DIMS)
    assert {p.forward.rows for p in plans} == {4, 8}
    assert {p.save for p in plans} == set(SAVES)


TARGETS = [
    # Each takes seconds, float32 most.
    pytest.param(name, dtype, marks=() if i == j != 1 else pytest.mark.slow)
    for i, name in enumerate(("lstm", "slstm", "gru"))
    for j, dtype in enumerate(DTYPES)
]


@pytest.mark.parametrize(("name", "dtype"), TARGETS)
def test_the_target_shape_compiles_as_planned(name, dtype, compiles_as_planned):
    plan = plan_of(name, "H200", "block", 64, dtype)
    compiles_as_planned(source_of(name, plan), "sm_90a")


def test_block_kernels_multiply_by_matrix_instructions():
    for dtype, words in [
        ("bfloat16", "m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("float16", "m16n8k16.row.col.f32.f16.f16.f32"),
        ("float32", "m16n8k8.row.col.f32.tf32.tf32.f32"),
    ]:
        plan = plan_of("elman", "A100", "block", 16, dtype)
        assert f"mma.sync.aligned.{words}" in ptx_of(source_of("elman", plan), "sm_80")
    plan = plan_of("indrnn", "A100", "block", 16, "float32")
    assert "mma.sync" not in ptx_of(source_of("indrnn", plan), "sm_80"), "it has no matrix"


def test_functions_of_short_dtypes_are_the_hardware_s():
    for dtype, fast in [("bfloat16", True), ("float32", False)]:
        plan = plan_of("lstm", "A100", "alternating", 16, dtype)
        assert ("tanh.approx" in ptx_of(source_of("lstm", plan), "sm_80")) == fast


@full
@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ONE_STAGE)
def test_the_full_product_compiles_as_planned(name, arch, compiles_as_planned):
    wrong = []
    for (dim, dtype, batch), save in product(ALL, SAVES):
        try:
            plan = plan_of(name, ARCHS[arch], "block", dim, dtype, batch, save)
        except PlanError:
            continue
        try:
            compiles_as_planned(source_of(name, plan), arch)
        except AssertionError as error:
            wrong.append((dim, dtype, batch, save, str(error).splitlines()[0]))
    for dtype, save in product([*DTYPES, "float64"], SAVES):
        plan = plan_of(name, ARCHS[arch], "alternating", 64, dtype, save=save)
        compiles_as_planned(source_of(name, plan), arch)
    assert not wrong, wrong
