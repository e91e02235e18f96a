"""A plan kind that is registered from outside: found by name, rendered and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import jinja2
import pytest
import rnnc
import torch
from rnnc.codegen.cuda.kernel_plan import KernelPlan, LaunchShape
from rnnc.codegen.cuda.kinds import KINDS, PlanKind, register_kind, unregister_kind
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.shape import PlanError, Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.launch import Launcher
from rnnc.runtime.cuda.launchers import register_launcher, unregister_launcher
from rnnc.runtime.cuda.load import load_kernel
from rnnc.runtime.cuda.nvrtc import compile_plan
from rnnc.runtime.store.tuned import packed_plan, unpacked_plan

TEMPLATE = """// {{ cell.name }}, {{ plan.kind }}
#include "toy/size.cuh"
extern "C" __global__ void rnnc_{{ plan.direction }}(float* h) { h[threadIdx.x] += kToy; }
"""
LSTM, SHAPE, H200 = rnnc.cells.lstm, Shape(2, 24), limits_of("H200")


@dataclass(frozen=True, kw_only=True)
class ToyPlan(KernelPlan):
    """A kernel that adds a number."""

    kind: ClassVar[str] = "toy"

    @property
    def launch_shape(self) -> LaunchShape:
        return LaunchShape(32)

    @property
    def mapping(self) -> str:
        return "one block"

    @property
    def sizes(self) -> str:
        return "one warp"


def candidates(request, direction):
    return [
        ToyPlan(
            direction=direction,
            arch=request.limits.arch,
            dtype=request.shape.dtype,
            save=request.save,
            tf32=request.tf32,
        )
    ]


@pytest.fixture
def toy() -> Iterator[None]:
    loader = jinja2.DictLoader({"cuda/toy.cu.jinja": TEMPLATE})
    register_kind(
        PlanKind(ToyPlan, candidates),
        loader,
        [("toy/size.cuh", "constexpr float kToy = 2;\n")],
    )
    yield
    unregister_kind("toy")
    assert "toy" not in KINDS
    plan_for.cache_clear()


@pytest.mark.usefixtures("toy")
def test_it_is_found_by_its_name_and_auto_takes_none() -> None:
    plan = plan_for(LSTM, SHAPE, H200, "toy")
    assert plan.variant == "toy"
    assert "one block; one warp" in str(plan)
    assert "toy" not in {plan.variant for plan in plans_for(LSTM, SHAPE, H200)}
    assert unpacked_plan(packed_plan(plan), "sm_90") == plan
    with pytest.raises(ValueError, match="'toy'"):
        register_kind(PlanKind(ToyPlan, candidates), jinja2.DictLoader({}))


@pytest.mark.usefixtures("toy")
def test_nvrtc_compiles_it(tmp_path, monkeypatch) -> None:
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    plan = plan_for(LSTM, SHAPE, H200, "toy")
    for kernel in (plan.forward, plan.backward):
        assert set(compile_plan(LSTM, kernel).reports) == set(kernel.kernel_names)


class ToyLauncher(Launcher):
    """Launches one block."""

    def __init__(self, cell, plan, sizes, device):
        self.made_of = cell, plan, f"rnnc_{plan.direction}", device

    def run(self, arguments, R, like, steps):
        load_kernel(*self.made_of)((1, 1, 1), arguments)


@pytest.mark.usefixtures("toy")
def test_a_call_launches_it(simulated_gpu) -> None:
    wx, R = (torch.randn(*s, requires_grad=True) for s in ((2, 3, 2, 24, 4), (4, 2, 24, 24)))

    def run():
        return rnnc.scan(LSTM, wx, R, variant="toy", backend="simulated")[0][0]

    with pytest.raises(PlanError) as refused:
        run()
    assert str(refused.value) == (
        "toy plan of lstm\n"
        "  found:  a kind of plan without a launcher\n"
        "  wanted: one of block, cluster, grid, walk, scan, alternating\n"
        "  write:  register_launcher('toy', …) of rnnc.runtime.cuda.launchers"
    )
    register_launcher("toy", ToyLauncher)
    try:
        with pytest.raises(ValueError, match="'toy'"):
            register_launcher("toy", ToyLauncher)
        h = run()
        assert simulated_gpu == ["rnnc_forward"]
        d_wx, d_R = torch.autograd.grad(h.sum(), [wx, R])
    finally:
        unregister_launcher("toy")
    assert simulated_gpu == ["rnnc_forward", "rnnc_backward"]
    assert (d_wx.shape, d_R.shape) == (wx.shape, R.shape)


@pytest.mark.usefixtures("toy")
def test_a_module_with_lengths_launches_it(simulated_gpu) -> None:
    module = rnnc.RNN(LSTM, 8, 48, heads=2, num_layers=2, variant="toy", backend="simulated")
    register_launcher("toy", ToyLauncher)
    try:
        y, _ = module(torch.randn(5, 3, 8), lengths=torch.tensor([5, 0, 2]))
        y.sum().backward()
    finally:
        unregister_launcher("toy")
    assert simulated_gpu == ["rnnc_forward"] * 2 + ["rnnc_backward"] * 2
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_word_that_no_kind_has_is_answered_with_all_of_them() -> None:
    with pytest.raises(PlanError, match="auto, block, cluster, grid, walk, scan, alternating"):
        plan_for(LSTM, SHAPE, H200, "toy")
