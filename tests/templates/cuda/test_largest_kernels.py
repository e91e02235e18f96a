"""The kernels of the largest heads, compiled for every preset: no spills. No GPU."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.largest import largest_head_dims
from rnnc.codegen.cuda.limits import PRESETS, limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import Shape

LSTM = rnnc.cells.lstm
pytestmark = pytest.mark.usefixtures("compiler")
# Long sums, whose additions the compiler would put off and keep their products in registers.
LONG_FLOAT32 = [
    pytest.param("slstm", "cluster", 192, marks=pytest.mark.slow),
    ("slstm", "grid", 192),
    pytest.param("fastgrnn", "cluster", 384, marks=pytest.mark.slow),
    pytest.param("lstm", "grid", 768, marks=pytest.mark.slow),
    pytest.param("fastgrnn", "grid", 2048, marks=pytest.mark.slow),
]
# A kind of plan on the first GPU of some architectures; all others in `make test-slow`.
QUICK = {
    "sm_80": "grid",
    "sm_86": "block",
    "sm_90": "cluster",
    "sm_120": "cluster",
}
FIRST = {limits.arch: limits for limits in reversed(PRESETS)}
CASES = [
    pytest.param(limits, v, marks=() if quick else pytest.mark.slow)
    for limits in PRESETS
    for v in ("block", "cluster", "grid")
    for quick in (FIRST[limits.arch] == limits and QUICK.get(limits.arch) == v,)
]


def name_of(case):
    return case.name if hasattr(case, "name") else case


@pytest.mark.parametrize(("limits", "variant"), CASES, ids=name_of)
def test_the_largest_head_compiles_as_planned(limits, variant, compiles_as_planned):
    dim = largest_head_dims(LSTM, limits).dims[variant]
    if not dim:
        assert limits.cluster == 1
        assert variant == "cluster"
        return
    plan = plan_for(LSTM, Shape(1, dim), limits, variant)
    compiles_as_planned(cuda_source(LSTM, plan), limits.arch)


@pytest.mark.parametrize(("name", "variant", "dim"), LONG_FLOAT32)
def test_long_sums_of_float32_compile_as_planned(name, variant, dim, compiles_as_planned):
    cell, h200 = rnnc.cells.get(name), limits_of("H200")
    plan = plan_for(cell, Shape(1, dim, 2, dtype="float32"), h200, variant)
    compiles_as_planned(cuda_source(cell, plan), h200.arch)
