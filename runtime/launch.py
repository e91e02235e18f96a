"""Kernels on a device: loaded once a device, launched on torch's current stream."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from ..cellspec.cell import CellSpec
from ..codegen.plan import AlternatingPlan, CudaPlan
from .nvrtc import compile_plan

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@dataclass(frozen=True)
class Kernel:
    """One entry point of a compiled source, on one device.

    Attributes:
        function: the driver's handle.
        threads: of a block.
        shared: bytes of shared memory of a block.
        module: what the handle lives in.
        device: the number of the device that it is loaded on.
    """

    function: int
    threads: int
    shared: int
    module: Any
    device: int

    def __call__(self, grid: tuple[int, int], arguments: ctypes.Structure) -> None:
        """Launch on torch's current stream of the current device; returns at once.

        Args:
            grid: blocks in x and y.
            arguments: passed by value.
        """
        from cupy_backends.cuda.api import driver

        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        driver.launchKernel(
            self.function,
            *(grid[0], grid[1], 1),
            *(self.threads, 1, 1),
            self.shared,
            torch._C._cuda_getCurrentRawStream(self.device),
            ctypes.addressof(pointers),
            0,
        )


@lru_cache(maxsize=512)
def load_kernels(cell: CellSpec, plan: CudaPlan, device: int) -> dict[str, Kernel]:
    """The kernels of a cell and plan by name, compiled on first use and loaded on a device.

    Args:
        cell: the cell.
        plan: what to compile for; its `arch` is the device's.
        device: the device's number; it must be torch's current device.
    """
    from cupy.cuda.function import Module
    from cupy_backends.cuda.api import driver

    binary = compile_plan(cell, plan)
    module = Module()
    module.load(binary.cubin)
    kernels = {}
    for name in plan.kernel_names:
        threads, shared = _sizes(plan, name)
        function = module.get_function(name)
        if shared:
            driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, shared)
        kernels[name] = Kernel(function.ptr, threads, shared, module, device)
    return kernels


def _sizes(plan: CudaPlan, name: str) -> tuple[int, int]:
    if isinstance(plan, AlternatingPlan):
        return plan.threads, 0
    kernel = plan.kernels[name]
    return kernel.threads, kernel.shared
