"""The check that every compiled CUDA kernel must pass."""

from __future__ import annotations

import pytest
from rnnc.runtime.cuda.nvrtc import compile_cuda

# An alternating kernel has no sizes of its own; its bound is two blocks of 256 threads per SM.
ALTERNATING_REGISTERS = 128
# In which a loop keeps its passes, per thread, in float32; and a few bytes across its passes.
LOOP_BYTES = 2048
# In which CUDA's sine and cosine reduce large arguments.
SINE_BYTES = 40


@pytest.fixture(scope="session")
def compiles_as_planned():
    """A function of a source and an architecture: no spills, no more registers than planned, and
    nothing on the stack but what a loop of the cell has there.

    The templates' own assertions check the shared memory.
    """

    def check(source, arch):
        for unit in source.units:
            plan, reports = unit.plan, compile_cuda(unit, arch).reports
            assert set(reports) == set(plan.kernel_names)
            for kernel, report in reports.items():
                allowed = getattr(plan, "registers", ALTERNATING_REGISTERS)
                stack = SINE_BYTES if "cos(" in unit.code else 0
                stack = LOOP_BYTES if "int pass1 = 0" in unit.code else stack
                assert report.spills == 0, (kernel, report, str(plan))
                assert report.stack <= stack, (kernel, report, str(plan))
                assert report.registers <= allowed, (kernel, report, str(plan))

    return check
