"""The kernels of alternating plans, compiled: no spills, room for two blocks per SM. No GPU."""

from __future__ import annotations

import os
import re

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda import nvrtc

from ...one_stage import ONE_STAGE

ARCHS = {"sm_80": "A100", "sm_90a": "H200", "sm_100a": "B200", "sm_120": "RTX 5090"}
CELLS = [name for name in ONE_STAGE if rnnc.cells.get(name).dense_pairs]
pytestmark = pytest.mark.usefixtures("compiler")
PROGRAMMATIC = ("griddepcontrol.launch_dependents", "griddepcontrol.wait")


def ptx_of(source, arch):
    """The PTX of both translation units."""
    return "".join(nvrtc.ptx_of(unit, arch) for unit in source.units)


def sources(name, gpu, dtype="bfloat16"):
    """Of every plan whose steps multiply themselves."""
    cell = rnnc.cells.get(name)
    plans = plans_of_kind("alternating", cell, Shape(1, 768, dtype=dtype), limits_of(gpu))
    return [cuda_source(cell, plan) for plan in plans if plan.forward.own]


def archs_of(name):
    """Architectures take turns; what most people run meets all of them."""
    slow = os.environ.get("RNNC_SLOW") or name in ("lstm", "nas_cell")
    return list(ARCHS) if slow else [list(ARCHS)[CELLS.index(name) % len(ARCHS)]]


# A cell on each of some architectures in `make test`; test_block_kernels.py meets the others.
QUICK = [("scrn", "sm_80"), ("lstm", "sm_90a"), ("fastgrnn", "sm_100a")]


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        pytest.param(name, arch, marks=() if (name, arch) in QUICK else pytest.mark.slow)
        for name in CELLS
        for arch in archs_of(name)
    ],
)
def test_every_size_compiles_without_spills(name, arch, compiles_as_planned):
    dtype = ("bfloat16", "float16")[(CELLS.index(name) // len(ARCHS)) % 2]
    found = sources(name, ARCHS[arch], dtype)
    assert found
    for source in found:
        compiles_as_planned(source, arch)


def entry(ptx, name):
    return ptx[ptx.index(f".entry {name}(") :].partition(".entry rnnc_never")[0].split("\n}\n")[0]


@pytest.mark.parametrize(
    "arch",
    ["sm_80", *(pytest.param(a, marks=pytest.mark.slow) for a in list(ARCHS)[1:3]), "sm_120"],
)
def test_steps_overlap_where_the_architecture_can(arch):
    ptx = ptx_of(sources("gru", ARCHS[arch])[0], arch)
    for kernel in ("rnnc_forward_step", "rnnc_backward_step"):
        text = entry(ptx, kernel)
        for instruction in PROGRAMMATIC:
            assert (instruction in text) == (arch != "sm_80")
    assert all(word not in entry(ptx, "rnnc_forward_begin") for word in PROGRAMMATIC)


@pytest.mark.parametrize("name", ["lstm", "cornn"])
def test_only_what_no_step_wrote_is_read_before_the_wait(name):
    """R, the arguments and the caller's tensors; of them R by loads that cannot sink behind it."""
    ptx = ptx_of(sources(name, "H200")[0], "sm_90a")
    for kernel in ("rnnc_forward_step", "rnnc_backward_step"):
        before, _, behind = entry(ptx, kernel).partition("griddepcontrol.wait")
        assert "ld.global.v4.u32" in before
        assert "ld.relaxed.gpu.global.v4.u32" not in before, "rows are the last step's"
        assert "ld.relaxed.gpu.global.v4.u32" in behind
        assert "ld.relaxed.gpu.global.f32" not in before, "so are states and sums"
        stores = re.findall(r"st\.(?:volatile\.)?(?:global|relaxed)[.\w]*", before)
        assert not stores, stores
