"""Kernels through the CUDA compiler, which needs no GPU: a cache of their own, and one check."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_cuda

# Of an alternating kernel, which has no sizes of its own: two blocks of 256 threads an SM.
ALTERNATING_REGISTERS = 128


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """NVRTC, with a cache of this module's own; without it the module's tests are skipped."""
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RNNC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def compiles_as_planned():
    """A function of a source and an architecture: no spills, no more registers than planned.

    The templates' own assertions hold the shared memory.
    """

    def check(source, arch):
        for unit in source.units:
            plan, reports = unit.plan, compile_cuda(unit, arch).reports
            assert set(reports) == set(plan.kernel_names)
            for kernel, report in reports.items():
                allowed = getattr(plan, "registers", ALTERNATING_REGISTERS)
                assert (report.spills, report.stack) == (0, 0), (kernel, report, str(plan))
                assert report.registers <= allowed, (kernel, report, str(plan))

    return check
