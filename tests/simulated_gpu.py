"""A GPU whose driver only takes notes, as a target that runs on tensors of the CPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.runtime.cuda import choose, load, memory, prepared, ready, spills, target
from rnnc.runtime.cuda.driver import blocks, streams
from rnnc.runtime.cuda.driver import driver as functions
from rnnc.runtime.cuda.driver import room as queues
from rnnc.runtime.cuda.products import inputs
from rnnc.runtime.cuda.step import ready as step_ready
from rnnc.runtime.cuda.target import CudaTarget
from rnnc.runtime.cuda.wavefront import passes
from rnnc.runtime.program.multiplier import TORCH
from rnnc.runtime.targets.by_torch import ONE_LANE, Lanes
from rnnc.runtime.targets.registry import register_target, unregister_target

if TYPE_CHECKING:
    import pytest

# Keep kernels of the simulated driver, and plans for its device.
CACHES = (
    load.load_kernel,
    prepared.prepare,
    ready.ready_for,
    choose.choose_plan,
    step_ready.step_ready,
    queues._room,
)


def forget_functions() -> None:
    """Forget the functions of the driver that were found."""
    for found in (functions.keeping, functions.letting_go):
        for name in functions._TYPES:
            vars(found).pop(name, None)


class SimulatedCuda(CudaTarget):
    """The target of a GPU, for tensors of the CPU."""

    device = "cpu"
    takes_stages = True

    def find_compiler(self, index: int | None) -> None:
        """There is always one, since nothing is compiled."""

    def begin(self, dtype: torch.dtype, index: int | None) -> None:
        """Nothing is compiled."""

    def lanes(self, like: torch.Tensor, steps: int) -> Lanes:
        """One direction after the other: there are no streams."""
        return ONE_LANE

    def rounds(self, dtype: torch.dtype, precision: str | None) -> bool:
        """Never: torch multiplies, since there is no cuBLAS."""
        return False


def _fill(address: int, byte: int, size: int, stream: int) -> None:
    ctypes.memset(address, byte, size)


class Library:
    """The driver's functions: what they are asked goes to CuPy's functions of the same purpose."""

    def __init__(self) -> None:
        self._events = 0

    def function(self, _: object, name: str) -> Callable[..., int]:
        """A function, as `driver._function` gives it."""
        run = getattr(self, name, None)

        def entered(*given: Any) -> int:
            if run is not None:
                run(*given)
            return 0

        return entered

    def cuLaunchKernelEx(self, config: int, function: int, values: int, _: None) -> None:  # noqa: N802
        found = blocks.LaunchConfig.from_address(config)
        sizes = [getattr(found, f"{of}_{axis}") for of in ("grid", "block") for axis in "xyz"]
        given = function, *sizes, found.shared_bytes, found.stream or 0, values, 0
        _api().driver.launchKernel(*given)

    def cuMemsetD8Async(self, *given: int) -> None:  # noqa: N802
        _api().runtime.memsetAsync(*given)

    def cuEventCreate(self, event: Any, _: int) -> None:  # noqa: N802
        self._events += 1
        event._obj.value = self._events

    def cuEventRecord(self, event: int, stream: int) -> None:  # noqa: N802
        _api().runtime.eventRecord(event, stream)

    def cuStreamWaitEvent(self, stream: int, event: int, _: int) -> None:  # noqa: N802
        _api().runtime.streamWaitEvent(stream, event)

    def cuStreamBatchMemOp_v2(self, *given: int) -> None:  # noqa: N802
        _api().driver.streamBatchMemOp(*given)


def _api() -> Any:
    return sys.modules["cupy_backends.cuda.api"]


@contextmanager
def simulated(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Register the target `"simulated"`; gives the names of the kernels that are launched."""
    launched: list[str] = []
    names: list[str] = []

    def function(name: str) -> int:
        names.append(name)
        return len(names) - 1

    def note(handle: int, *_: object) -> None:
        launched.append(names[handle])

    def product(kind: str) -> Callable[..., None]:
        return lambda *_, **__: launched.append(f"product {kind}")

    multiplies = {kind: product(kind) for kind in ("forward", "backward", "weights")}
    gemm = SimpleNamespace(**multiplies)
    patch.setattr(step_ready, "Gemm", lambda *_: gemm)

    patch.setattr(functions, "_function", Library().function)
    # Nothing runs, and so nothing is waited for.
    patch.setattr(queues, "_BETWEEN_MARKS", 10**18)
    driver = SimpleNamespace(
        launchKernel=note, launchCooperativeKernel=note, funcSetAttribute=lambda *_: None
    )
    api = ModuleType("cupy_backends.cuda.api")
    api.driver = driver  # type: ignore[attr-defined]
    api.runtime = SimpleNamespace(memsetAsync=_fill)  # type: ignore[attr-defined]
    for name in ("cupy_backends", "cupy_backends.cuda"):
        patch.setitem(sys.modules, name, ModuleType(name))
    patch.setitem(sys.modules, "cupy_backends.cuda.api", api)
    patch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, raising=False)
    patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    patch.setattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False, raising=False)
    patch.setattr(torch.cuda, "current_device", lambda: None)
    patch.setattr(streams._here, "device", None, raising=False)
    patch.setattr(load, "resident_blocks", lambda *_: 10**6)
    patch.setattr(load, "_load_module", lambda *_: SimpleNamespace(function=function))
    patch.setattr(spills, "compile_plan", lambda *_: SimpleNamespace(reports={}))
    patch.setattr(load, "beside_captures", nullcontext)
    patch.setattr(memory, "device_tensor", lambda size, dtype, *_: torch.empty(size, dtype=dtype))
    for room in (target, inputs, passes):
        patch.setattr(room, "multiplier", lambda *_: TORCH)
    # Tests that replace kernels by other functions see each call.
    patch.setattr(queues, "is_here", lambda _: False)
    for room in (choose, load):
        patch.setattr(room, "device_limits", lambda _: limits_of("H200"))
    forget_functions()
    for cached in CACHES:
        cached.cache_clear()
    register_target("simulated", SimulatedCuda())
    try:
        yield launched
    finally:
        unregister_target("simulated")
        forget_functions()
        for cached in CACHES:
            cached.cache_clear()
