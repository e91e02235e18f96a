"""Grid kernels that stream R, compiled: no spills, sizes as planned. No GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from rnnc.codegen.cuda.arch import limits_of_arch
from rnnc.codegen.cuda.grid.plan import RING_BYTES
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape

pytestmark = pytest.mark.usefixtures("compiler")
ARCHS = ["sm_80", "sm_90a", "sm_100a", "sm_120"]
# The compiler takes many seconds for each: an architecture meets some, in `make test-slow`.
LARGE = [
    ("lstm", Shape(1, 2560), ("sm_80", "sm_90a")),
    ("gru", Shape(1, 2560), ("sm_100a", "sm_120")),
    ("gru", Shape(1, 3072), ("sm_80", "sm_100a")),
    ("lstm", Shape(1, 3072), ("sm_90a",)),
    ("lstm", Shape(1, 1280, dtype="float32"), ("sm_90a", "sm_120")),
]
SMALL = [
    ("lstm", Shape(1, 250)),
    ("slstm", Shape(2, 200, 33, dtype="float16")),
    ("scrn", Shape(1, 330, 40)),  # two sources
    ("gru", Shape(1, 330, dtype="float32")),
    ("elman", Shape(1, 201, 64)),
]


def marks_of(name, turn):
    """Each shape on one architecture in `make test`; float32, the GRU, takes longest."""
    return () if turn % len(ARCHS) == 1 and name != "gru" else pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "arch"),
    [(name, shape, arch) for name, shape, archs in LARGE for arch in archs],
    ids=str,
)
def test_no_spills(name, shape, arch, compiles_as_planned):
    cell = rnnc.cells.get(name)
    plan = plans_of_kind("grid", cell, shape, limits_of_arch(arch))[0]
    assert plan.forward.streams or plan.backward.streams
    compiles_as_planned(cuda_source(cell, plan), arch)


@pytest.mark.parametrize(
    ("name", "shape", "arch"),
    [
        pytest.param(name, shape, arch, marks=marks_of(name, i + j))
        for i, (name, shape) in enumerate(SMALL)
        for j, arch in enumerate(ARCHS)
    ],
    ids=str,
)
def test_all_of_r_may_be_streamed(name, shape, arch, compiles_as_planned):
    """Fewer fragments than are on their way at once, rows of any alignment, tiles in phases."""
    cell = rnnc.cells.get(name)
    plan = plans_of_kind("grid", cell, shape, limits_of_arch(arch))[0]
    kernels = {
        direction: replace(
            kernel,
            register_k_tiles=0,
            streamed_k_tiles=kernel.register_k_tiles,
            shared=kernel.shared + RING_BYTES * kernel.warps,
        )
        for direction, kernel in (("forward", plan.forward), ("backward", plan.backward))
    }
    compiles_as_planned(cuda_source(cell, Plan(**kernels)), arch)
