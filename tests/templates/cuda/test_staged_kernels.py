"""Kernels of cells with stages, compiled: no spills, R in as few registers. No GPU."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import rnnc
from rnnc.codegen.cuda.kinds import KINDS
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.request import PlanRequest
from rnnc.codegen.shape import DIRECTIONS, PlanError, Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_flags
from rnnc.runtime.cuda.spills import MOST_SPILLED, spilled_bytes

STAGED = [name for name in rnnc.cells.names() if rnnc.cells.get(name).has_stages]
HEADERS = Path(__file__).parents[3] / "templates/cuda/stages"
DTYPES = ["bfloat16", "float16", "float32"]

pytestmark = pytest.mark.usefixtures("compiler")


ARCHS = {"A100": "sm_80", "H200": "sm_90a", "B200": "sm_100a"}


def source_of(name, dim=64, dtype="bfloat16", gpu="H200", heads=12, variant="block"):
    """The source of a plan that `"auto"` may take: its kernels have a margin of registers."""
    cell, limits = rnnc.cells.get(name), limits_of(gpu)
    shape = Shape(heads=heads, head_dim=dim, batch=16, dtype=dtype)
    for direction in DIRECTIONS:  # raises an error if there is none
        KINDS[variant].candidates_for_auto(PlanRequest(cell, shape, limits), direction)
    return cuda_source(cell, plan_for(cell, shape, limits, variant))


@pytest.mark.parametrize(
    ("name", "dtype", "variant", "dim"),
    [
        ("mgu", "bfloat16", "block", 192),
        pytest.param("layer_norm_lstm", "bfloat16", "block", 96, marks=pytest.mark.slow),
        pytest.param("layer_norm_lstm", "bfloat16", "cluster", 384, marks=pytest.mark.slow),
        pytest.param("mogrifier_lstm", "bfloat16", "cluster", 192, marks=pytest.mark.slow),
        pytest.param("mogrifier_lstm", "float32", "cluster", 48, marks=pytest.mark.slow),
        pytest.param("wmc_lstm", "float32", "grid", 640, marks=pytest.mark.slow),
    ],
)
def test_plans_without_a_margin_of_registers_spill_little(name, dtype, variant, dim):
    cell, shape = rnnc.cells.get(name), Shape(1, dim, 16, dtype=dtype)
    with pytest.raises(PlanError, match="registers"):
        source_of(name, dim, dtype, heads=1, variant=variant)
    for masked in (False, True):
        plan = plan_for(cell, shape, limits_of("H200"), variant).in_time(False, masked)
        for kernel in plan.kernels.values():
            assert spilled_bytes(cell, kernel) <= MOST_SPILLED


@pytest.mark.parametrize(
    ("name", "registers"), [("gru_reset_first", 48), ("lem", 64), ("joint_norm_lstm", 64)]
)
def test_heads_of_64_units(name, registers, compiles_as_planned):
    source = source_of(name)
    assert source.plan.forward.matrix_registers == registers
    compiles_as_planned(source, "sm_90a")


@pytest.mark.parametrize(
    ("name", "registers"), [("gru_reset_first", 96), ("lem", 128), ("joint_norm_lstm", 128)]
)
def test_heads_of_256_units_in_clusters(name, registers, compiles_as_planned):
    cell, shape = rnnc.cells.get(name), Shape(heads=3, head_dim=256, batch=16)
    plans = plans_of_kind("cluster", cell, shape, limits_of("H200"))
    plan = next(p for p in plans if (p.forward.cluster, p.forward.warps) == (8, 4))
    assert plan.forward.matrix_registers == registers
    compiles_as_planned(cuda_source(cell, plan), "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["H200", "B200"])
@pytest.mark.parametrize("name", STAGED)
def test_every_cell_and_dtype_in_clusters(name, gpu, compiles_as_planned):
    compiled = 0
    for dtype, dim in product(DTYPES, (128, 256, 72, 40)):
        try:
            source = source_of(name, dim, dtype, gpu, variant="cluster")
        except PlanError:
            continue
        compiles_as_planned(source, ARCHS[gpu])
        compiled += 1
    assert compiled


@pytest.mark.parametrize(
    ("name", "registers"),
    [
        ("gru_reset_first", 72),
        pytest.param("lem", 96, marks=pytest.mark.slow),
        pytest.param("joint_norm_lstm", 96, marks=pytest.mark.slow),
    ],
)
def test_a_head_of_768_units(name, registers, compiles_as_planned):
    source = source_of(name, 768, heads=1, variant="grid")
    forward = source.plan.forward
    assert (forward.blocks, forward.warps, forward.matrix_registers) == (48, 8, registers)
    compiles_as_planned(source, "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ARCHS)
@pytest.mark.parametrize("name", STAGED)
def test_every_cell_in_a_grid(name, gpu, compiles_as_planned):
    compiled = 0
    for dtype, dim in zip(DTYPES, (768, 330, 256), strict=True):
        try:
            source = source_of(name, dim, dtype, gpu, 1, "grid")
        except PlanError:
            continue
        compiles_as_planned(source, ARCHS[gpu])
        compiled += 1
    assert compiled


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ARCHS)
@pytest.mark.parametrize("name", STAGED)
def test_every_cell_and_dtype(name, gpu, compiles_as_planned):
    compiled = 0
    for dtype, dim in product(DTYPES, (64, 40, 16)):
        try:
            source = source_of(name, dim, dtype, gpu)
        except PlanError:
            continue
        compiles_as_planned(source, ARCHS[gpu])
        compiled += 1
    assert compiled or name in ("mogrifier_lstm", "nested_lstm"), "no head fits"


def accepted(code, headers):
    """Whether the front end of NVRTC accepts a text."""
    nvrtc = cupy_nvrtc()
    names, texts = zip(*((n.encode(), text.encode()) for n, text in headers), strict=True)
    program = nvrtc.createProgram(code, "test.cu", texts, names)
    try:
        flags = compile_flags("bfloat16", "compute_90a")
        nvrtc.compileProgram(program, (*flags, "--fdevice-syntax-only"))
    except nvrtc.NVRTCError:
        return False
    finally:
        nvrtc.destroyProgram(program)
    return True


HEADERS_OF_RESIDENT_PLANS = sorted(
    f"lib/{path.relative_to(HEADERS)}"
    for path in HEADERS.rglob("*.cuh")
    if "alternating" not in path.parts
)


@pytest.mark.parametrize("header", HEADERS_OF_RESIDENT_PLANS)
def test_a_header_compiles_alone(header):
    variant = next((kind for kind in ("cluster", "grid") if kind in header), "block")
    source = source_of("layer_norm_lstm", variant=variant)
    unit = source.backward_unit if "backward" in header else source.forward_unit
    cell, _, _ = unit.code.partition(f'#include "lib/stages/{variant}_')
    assert accepted(f'{cell}\n#include "{header}"\n', unit.headers)
