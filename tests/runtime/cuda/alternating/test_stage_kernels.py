"""What the compiler makes of the kernels of cells with stages, on a machine without a GPU."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_cuda

# Bytes of spills from which a warning would name a kernel.
MOST_SPILLS = 256
LIBRARY = [name for name in rnnc.cells.names() if rnnc.cells.get(name).has_stages]


@pytest.fixture(autouse=True)
def compiler():
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))


def compile_all(cell, dtype, masked, gpu="H200"):
    for plan in plans_of_kind("alternating", cell, Shape(1, 64, dtype=dtype), limits_of(gpu)):
        for direction in DIRECTIONS:
            kernel = getattr(plan.in_time(False, masked), direction)
            binary = compile_cuda(kernel_source(cell, kernel), kernel.arch)
            assert set(binary.reports) == set(kernel.kernel_names)
            most = max(report.spills for report in binary.reports.values())
            assert most <= MOST_SPILLS, binary.reports


@pytest.mark.parametrize(
    ("name", "dtype", "masked"),
    [("gru", "bfloat16", False), ("norm_lstm", "float32", True), ("deep", "float64", False)],
)
def test_kernels_compile(name, dtype, masked, staged_cells):
    compile_all(staged_cells.TWINS[name][0], dtype, masked)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["A100", "H200"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", LIBRARY)
def test_kernels_of_the_library_compile(name, dtype, gpu):
    compile_all(rnnc.cells.get(name), dtype, True, gpu)
