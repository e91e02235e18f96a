"""Errors of the driver, raised by a fake driver; no GPU is needed."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.limits import MIB, limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.shape import Shape
from rnnc.errors import ResidencyError
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.cuda import choose, launch, load, prepared, ready, spills
from rnnc.runtime.cuda.arguments import arguments_of
from rnnc.runtime.cuda.driver import driver as functions
from rnnc.runtime.cuda.driver.blocks import as_residency
from rnnc.runtime.cuda.launch import CallSizes, Kernel
from rnnc.runtime.cuda.prepared import launched, prepare

LSTM, H200 = rnnc.cells.lstm, limits_of("H200")
ASKED = choose.PlanQuestion(LSTM, 1, 768, 16, torch.bfloat16, 0, Choice(), False)
STEPS = 100
ARGUMENTS = arguments_of(rnnc.cells.lstm, "forward", False, False)()
NO_ROOM = {
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    720: "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    912: "CUDA_ERROR_INVALID_CLUSTER_SIZE",
    914: "CUDA_ERROR_INVALID_RESOURCE_TYPE",
    915: "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
}


class DriverError(RuntimeError):
    """As CuPy raises it."""

    def __init__(self, status):
        super().__init__(f"error {status}")
        self.status = status


@pytest.fixture
def driver(monkeypatch, new_functions):
    """The driver, whose launches fail as a test sets."""

    def fail(*_):
        raise DriverError(fake.status)

    def check(status):
        assert status == fake.status
        fail()

    fake = SimpleNamespace(check_status=check, funcSetAttribute=fail, status=720)
    monkeypatch.setattr(functions, "_function", lambda kind, name: lambda *_: fake.status)
    monkeypatch.setattr(launch, "make_room", lambda *_: None)
    module = ModuleType("cupy_backends.cuda.api")
    module.driver = fake
    for name in ("cupy_backends", "cupy_backends.cuda"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", module)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    return fake


@pytest.mark.parametrize("status", NO_ROOM)
@pytest.mark.parametrize("resident", [None, 200])
def test_a_launch_without_room_is_a_residency_error(driver, status, resident):
    driver.status = status
    kernel = Kernel("rnnc_forward", 7, 256, 0, None, 1, resident)
    with pytest.raises(ResidencyError) as refused:
        kernel((48, 2, 1), ARGUMENTS)
    lines = str(refused.value).splitlines()
    assert lines[0] == "launch of rnnc_forward on cuda:1"
    assert lines[1].startswith(f"  found:  {NO_ROOM[status]}: ")
    assert lines[2].startswith("  wanted: ")
    assert lines[3].startswith('  write:  variant="alternating"')


def test_another_error_of_the_driver_stays_what_it_is(driver):
    driver.status = 1  # CUDA_ERROR_INVALID_VALUE
    with pytest.raises(DriverError, match="error 1"):
        Kernel("rnnc_forward", 7, 256, 0, None, 0)((1, 1, 1), ARGUMENTS)
    error = ValueError("no driver's")
    assert as_residency(error, "here") is error


def test_a_load_without_room_is_a_residency_error(driver, monkeypatch):
    plan = plan_for(LSTM, Shape(1, 768), H200, "grid")
    module = SimpleNamespace(function=lambda name: 7)
    monkeypatch.setattr(load, "beside_captures", nullcontext)
    monkeypatch.setattr(load, "_load_module", lambda *_: module)
    load.load_kernel.cache_clear()
    with pytest.raises(ResidencyError, match="load of rnnc_backward on cuda:0"):
        load.load_kernel(LSTM, plan.backward, "rnnc_backward", 0)


def test_a_kernel_is_kept_once_a_graph_has_it(driver, monkeypatch):
    driver.status = 0
    monkeypatch.setattr(launch, "_FOR_GOOD", {})
    kernel = Kernel("rnnc_forward", 7, 256, 0, None, 0)
    kernel((1, 1, 1), ARGUMENTS)
    assert launch._FOR_GOOD == {}
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    kernel((1, 1, 1), ARGUMENTS)
    assert list(launch._FOR_GOOD.values()) == [None]  # its module


@pytest.fixture
def h200(monkeypatch):
    monkeypatch.setattr(choose, "device_limits", lambda index: H200)


def forwards():
    """The forward kernels that a call may run, in the order in which they are tried."""
    return list(dict.fromkeys(plan.forward for plan in plans_for(LSTM, Shape(1, 768), H200)))


def auto(plan):
    """A direction of a call of which `variant="auto"` has chosen the plan."""
    others = partial(ready.other_plans, ASKED, plan.direction, False)
    return replace(prepare(LSTM, plan, CallSizes(16, 1, 768), 0), others=others)


def no_room_for(*refusing):
    """A launch that some plans have no room for."""
    tried = []

    def run(ready):
        tried.append(ready.plan)
        if ready.plan in refusing:
            raise ResidencyError("launch", "no room here", "room", "less")
        return ready.plan

    return run, tried


def test_auto_runs_the_next_plan_that_the_driver_takes(h200):
    plans = forwards()
    run, tried = no_room_for(*plans[:2])
    with pytest.warns(
        RuntimeWarning, match="where it would run the grid plan.*\n.*\n.*no room here"
    ):
        assert launched(auto(plans[0]), run, STEPS) == plans[2]
    assert tried == plans[:3]


def test_auto_runs_another_plan_where_memory_ends(h200):
    plans = forwards()

    def run(ready):
        if ready.plan == plans[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return ready.plan

    with pytest.warns(RuntimeWarning, match="out of memory"):
        assert launched(auto(plans[0]), run, STEPS) == plans[1]


def test_where_nothing_has_room_the_first_plan_s_error_is_raised(h200):
    plans = forwards()
    run, tried = no_room_for(*plans)
    with pytest.raises(ResidencyError, match="no room"):
        launched(auto(plans[0]), run, STEPS)
    assert tried == [*plans, plans[0]]


def test_a_plan_that_was_asked_for_is_not_replaced():
    plan = plan_for(LSTM, Shape(1, 768), H200, "grid").forward
    run, tried = no_room_for(plan)
    with pytest.raises(ResidencyError):
        launched(prepare(LSTM, plan, CallSizes(16, 1, 768), 0), run, STEPS)
    assert tried == [plan]


@pytest.fixture
def free(monkeypatch):
    """Sets how many MiB are free, and counts the questions."""
    asked = []

    def set_free(mebibytes):
        monkeypatch.setattr(
            prepared, "free_bytes", lambda device: asked.append(device) or mebibytes * MIB
        )
        return asked

    return set_free


def test_auto_takes_a_plan_whose_buffers_fit_the_memory(h200, free):
    free(300)
    grid = plan_for(LSTM, Shape(1, 768), H200, "grid").backward
    long = 100_000
    with pytest.warns(RuntimeWarning, match="300 MiB free"):
        ran = launched(auto(grid), lambda ready: ready.plan, long)
    assert ran.kind != "grid"


def test_the_memory_is_asked_for_large_buffers_alone(h200, free):
    asked = free(10**6)
    grid = plan_for(LSTM, Shape(1, 768), H200, "grid").forward
    assert launched(auto(grid), lambda ready: ready.plan, STEPS) == grid
    assert asked == []
    long = 100_000
    assert launched(auto(grid), lambda ready: ready.plan, long) == grid
    assert asked == [0]


def test_free_memory_is_the_driver_s_and_torch_s_own_up_to_its_share(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (500, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)
    assert prepared.free_bytes(0) == 500 + 200
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 0.4)
    assert prepared.free_bytes(0) == 100 + 200
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert prepared.free_bytes(0) == 100


def test_a_direction_that_does_not_run_is_not_loaded(h200, monkeypatch):
    loaded = []

    def load(cell, plan, name, device):
        loaded.append(name)
        return SimpleNamespace(resident=10**6)

    monkeypatch.setattr(choose, "on_device", lambda device: nullcontext())
    monkeypatch.setattr(choose, "load_kernel", load)
    monkeypatch.setattr(choose, "recall", lambda asked: None)
    monkeypatch.setattr(spills, "compile_plan", lambda *_: SimpleNamespace(reports={}))
    choose.choose_plan.cache_clear()
    choose.choose_plan(ASKED, "forward")
    assert loaded == ["rnnc_forward"]
    choose.choose_plan.cache_clear()
