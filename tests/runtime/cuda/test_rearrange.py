"""The kernels that rearrange tensors: a unit and a launch per dtype."""

from __future__ import annotations

import pytest
import torch
from rnnc.runtime.cuda.load import compile_unit, unit_of
from rnnc.runtime.cuda.products import rearrange as module
from rnnc.runtime.cuda.products.rearrange import Job, rearrange

DTYPES = list(module.TYPES)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_unit_of_a_dtype_compiles_without_spills(dtype, arch, compiler):
    (report,) = compile_unit(unit_of("rearrange", module.TYPES[dtype]), arch).reports.values()
    assert (report.spills, report.stack) == (0, 0)
    assert report.registers <= 64


def test_a_unit_has_the_code_of_its_dtype_alone():
    """A first call waits for its compiler."""
    names = {unit_of("rearrange", module.TYPES[dtype]).name for dtype in DTYPES}
    assert len(names) == len(DTYPES)
    for dtype in DTYPES:
        assert unit_of("rearrange", module.TYPES[dtype]).code.startswith(
            f"#define RNNC_TO {module.TYPES[dtype]}\n"
        )


def test_jobs_of_several_dtypes_are_a_launch_each(monkeypatch):
    launched = []
    monkeypatch.setattr(module, "_words", lambda job: (1, [job.to.numel()]))
    monkeypatch.setattr(
        module,
        "_launch",
        lambda some, dtype, device: launched.append((dtype, [words[0] for _, words in some])),
    )
    sizes = [(torch.bfloat16, 3), (torch.float32, 5), (torch.bfloat16, 7), (torch.float32, 0)]
    rearrange([Job(torch.empty(n, dtype=dtype), torch.empty(1, n)) for dtype, n in sizes])
    assert launched == [(torch.bfloat16, [3, 7]), (torch.float32, [5])]


@pytest.mark.parametrize(
    ("read", "written"),
    [(torch.float16, torch.bfloat16), (torch.float64, torch.bfloat16), (torch.int32, torch.int32)],
)
def test_other_dtypes_are_left_to_torch(read, written, monkeypatch):
    left = []
    monkeypatch.setattr(module, "by_torch", left.append)
    rearrange([Job(torch.empty(4, dtype=written), torch.empty(1, 4, dtype=read))])
    assert len(left) == 1
