"""The kernels of the largest heads through the compiler, for every preset: no spills. No GPU."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.largest import largest_head_dims
from rnnc.codegen.limits import PRESETS
from rnnc.codegen.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.device import cupy_nvrtc
from rnnc.runtime.nvrtc import compile_plan

LSTM = rnnc.cells.lstm
CASES = [(limits, v) for limits in PRESETS for v in ("block", "cluster", "grid")]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RNNC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def name_of(case):
    return case.name if hasattr(case, "name") else case


@pytest.mark.parametrize(("limits", "variant"), CASES, ids=name_of)
def test_the_largest_head_compiles_as_planned(limits, variant):
    dim = getattr(largest_head_dims(LSTM, limits), variant)
    if not dim:
        assert limits.cluster == 1
        assert variant == "cluster"
        return
    plan = plan_for(LSTM, Shape(1, dim), limits, variant)
    for name, report in compile_plan(LSTM, plan).reports.items():
        assert (report.spills, report.stack) == (0, 0), (name, report, str(plan))
        assert report.registers <= plan.kernels[name].registers
