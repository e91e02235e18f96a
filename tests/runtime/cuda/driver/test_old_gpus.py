"""A GPU that is too old is refused before anything is compiled; no GPU is needed."""

from __future__ import annotations

import warnings

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.limits import KIB, MIB, Limits
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.shape import PlanError, Shape
from rnnc.runtime.cuda.driver import device
from rnnc.runtime.cuda.driver.device import find_cuda
from rnnc.runtime.process.caller import warn_once
from rnnc.runtime.run.backend import resolve_backend

T4 = Limits("Tesla T4", (7, 5), 40, 64 * KIB, 64 * KIB, 4 * MIB, 1)


@pytest.fixture
def capability(monkeypatch):
    """Makes torch and NVRTC's wheel say that there is such a GPU."""

    def be(*numbers):
        monkeypatch.setattr(device, "nvrtc_version", lambda: "wheel")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: numbers)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla T4")
        find_cuda.cache_clear()
        warn_once.cache_clear()

    yield be
    find_cuda.cache_clear()
    warn_once.cache_clear()


def test_the_planner_names_the_capability():
    for ask in (plan_for, plans_for):
        with pytest.raises(PlanError) as refused:
            ask(rnnc.cells.lstm, Shape(1, 64), T4)
        assert str(refused.value) == (
            "plan on Tesla T4\n"
            "  found:  compute capability 7.5\n"
            "  wanted: 8.0 or later\n"
            '  write:  backend="reference"'
        )


def test_by_name_it_is_an_error_and_auto_takes_the_reference_with_one_warning(capability):
    capability(7, 5)
    with pytest.raises(rnnc.NoCudaError) as refused:
        resolve_backend("cuda", "cuda", 0)
    text = "Tesla T4\n  found:  compute capability 7.5\n  wanted: 8.0 or later\n"
    assert str(refused.value) == text + '  write:  backend="reference"'
    with pytest.warns(RuntimeWarning, match="there are no CUDA kernels"):
        assert resolve_backend("auto", "cuda", 0) == "reference"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_backend("auto", "cuda", 0) == "reference"
        assert resolve_backend("reference", "cuda", 0) == "reference"


def test_from_8_0_on_the_kernels_run(capability):
    capability(8, 0)
    assert resolve_backend("auto", "cuda", 0) == "cuda"


@pytest.mark.parametrize("backend", ["auto", "cpu", "reference"])
def test_a_dtype_without_kernels_is_a_tensor_error(backend):
    wx = torch.zeros(2, 3, 1, 4, 4).to(torch.float8_e4m3fn)
    with pytest.raises(rnnc.TensorError) as refused:
        rnnc.scan(rnnc.cells.lstm, wx, wx[:, 0, :, :, :].squeeze(1), backend=backend)
    assert refused.value.argument == "wx"
    assert refused.value.found == "dtype torch.float8_e4m3fn"
    assert refused.value.wanted.endswith("float32, float64, bfloat16, float16")
