"""The kernels of grid plans, compiled: no spills, registers as planned. No GPU."""

from __future__ import annotations

import os

import pytest
import rnnc
from rnnc.codegen.cuda.arch import limits_of_arch
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import PlanError, Shape

from ...one_stage import ONE_STAGE

pytestmark = pytest.mark.usefixtures("compiler")
# Blocks exchange states that a matrix multiplies: those of the other cells have nothing to say.
NAMES = [name for name in ONE_STAGE if rnnc.cells.get(name).dense_pairs]
ARCHS = ["sm_80", "sm_90a", "sm_100a", "sm_120"]
# Each cell on each architecture: every sixth cell on one of them in `make test`.
IN_TURNS = [
    pytest.param(name, arch, marks=() if (i + 4 * j) % 24 == 1 else pytest.mark.slow)
    for i, name in enumerate(NAMES)
    for j, arch in enumerate(ARCHS)
]
# Sizes with a whole number of chunks and without, R in registers and beyond, one tile of rows and
# several; each cell and architecture meets one, another beside its neighbours.
SHAPES = [
    Shape(1, 768, 16),
    Shape(2, 200, 33, dtype="float16"),
    Shape(1, 1024, 16),
    Shape(1, 330, 16, dtype="float32"),
    Shape(3, 256, 64),
    Shape(1, 1001, 2),
]


# Rows of R that end within a chunk: products of TF32 leave the registers for that.
TF32_SHAPES = [
    Shape(1, 1000, 32, dtype="float32"),
    Shape(1, 600, 64, dtype="float32"),
    Shape(2, 300, 8, dtype="float32"),
]


def check(name, shape, arch, compiles_as_planned, tf32=False):
    """Whether there is such a plan; it compiles."""
    cell = rnnc.cells.get(name)
    try:
        plan = plans_of_kind("grid", cell, shape, limits_of_arch(arch), tf32=tf32)[0]
    except PlanError:
        return False
    compiles_as_planned(cuda_source(cell, plan), arch)
    return True


@pytest.mark.parametrize(("name", "arch"), IN_TURNS)
def test_no_spills(name, arch, compiles_as_planned):
    turn = NAMES.index(name) + ARCHS.index(arch)
    order = SHAPES[turn % len(SHAPES) :] + SHAPES[: turn % len(SHAPES)]
    assert any(check(name, shape, arch, compiles_as_planned) for shape in order)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "elman" else pytest.mark.slow) for name in NAMES],
)
def test_no_spills_of_tf32(name, compiles_as_planned):
    shape = TF32_SHAPES[NAMES.index(name) % len(TF32_SHAPES)]
    assert check(name, shape, "sm_90a", compiles_as_planned, tf32=True)


@pytest.mark.slow
@pytest.mark.skipif("RNNC_SLOW" not in os.environ, reason="tens of minutes: make test-slow")
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_spills_of_any_cell(shape, arch, compiles_as_planned):
    found = [check(name, shape, arch, compiles_as_planned) for name in NAMES]
    assert any(found)
