"""Kernels on a device: loaded once per device, launched on torch's current stream."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan
from ..errors import ResidencyError
from .driver.capture import beside_captures
from .driver.driver import as_residency
from .driver.residency import resident_blocks
from .nvrtc import compile_plan

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_PORTABLE_CLUSTER = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_PORTABLE_CLUSTER = 8  # blocks: CUDA C++ Programming Guide, "Thread Block Clusters"


@dataclass(frozen=True)
class Kernel:
    """One entry point of a compiled source, on one device.

    Attributes:
        name: as the source has it.
        function: the driver's handle.
        threads: of a block.
        shared: bytes of shared memory of a block.
        module: what the handle lives in.
        device: the number of the device that it is loaded on.
        resident: where all blocks of a launch wait for each other, how many of them the device
            holds at once; else none, and a launch may have any number of blocks.

    Such launches are cooperative. No order is kept between two of them on different streams, or in
    branches of a graph, for they cannot block each other with a part of the device each: once a
    thread of a cooperative grid makes progress, all threads of that grid eventually do, and of
    other grids all threads of its cluster (CUDA C++ execution model, "Device threads":
    nvidia.github.io/cccl/libcudacxx/extended_api/execution_model.html). Nor do they share memory:
    each call has an exchange buffer of its own.
    """

    name: str
    function: int
    threads: int
    shared: int
    module: Any
    device: int
    resident: int | None = None

    def __call__(
        self,
        grid: tuple[int, int, int],
        arguments: ctypes.Structure,
        stream: int | None = None,
    ) -> None:
        """Launch on torch's current stream of the current device; returns at once.

        Args:
            grid: blocks in x, y and z.
            arguments: passed by value.
            stream: the handle of a stream to launch on instead. If it captures, the caller keeps
                the kernel as long as the graph.

        Raises:
            ResidencyError: the blocks wait for each other, and the device cannot hold all of them.
        """
        from cupy_backends.cuda.api import driver

        # Where this does not fit, CuPy's own launch takes a smaller grid; the driver names no size.
        if self.resident is not None:
            check_room(self, grid[0] * grid[1] * grid[2], self.resident)
        if stream is None:
            stream = torch._C._cuda_getCurrentRawStream(self.device)
            if torch.cuda.is_current_stream_capturing():
                never_unload(self)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        launch = (
            self.function,
            *grid,
            *(self.threads, 1, 1),
            self.shared,
            stream,
            ctypes.addressof(pointers),
        )
        try:
            if self.resident is None:
                driver.launchKernel(*launch, 0)
            else:
                driver.launchCooperativeKernel(*launch)
        except RuntimeError as error:
            raise as_residency(error, f"launch of {self.name} on cuda:{self.device}") from None


# Of kernels that were launched into a caller's graph: nobody tells when that graph is gone.
_FOR_GOOD: dict[int, Any] = {}


def never_unload(kernel: Kernel) -> None:
    """Keep a kernel loaded until the process ends.

    Args:
        kernel: of any device.
    """
    _FOR_GOOD[id(kernel.module)] = kernel.module


def check_room(kernel: Kernel, blocks: int, resident: int) -> None:
    """Refuse blocks that wait for each other where a device cannot hold all of them.

    Args:
        kernel: of the blocks.
        blocks: how many.
        resident: how many the device holds at once.
    """
    if blocks > resident:
        raise ResidencyError(
            f"launch of {kernel.name} on cuda:{kernel.device}",
            f"{blocks} blocks that wait for each other, each with {kernel.threads} threads and"
            f" {kernel.shared} bytes of shared memory",
            f"at most {resident} blocks, which the device holds at once",
            'variant="alternating", fewer heads, or a smaller head_dim',
        )


@lru_cache(maxsize=1024)
def load_kernel(cell: CellSpec, plan: KernelPlan, name: str, device: int) -> Kernel:
    """A kernel of a cell and plan, compiled on first use and loaded on a device.

    Args:
        cell: the cell.
        plan: what to compile for; its `arch` is the device's.
        name: one of the plan's `kernel_names`.
        device: the device's number; it must be torch's current device.

    Raises:
        ResidencyError: the device has no room for a cluster of the kernel's blocks.
    """
    try:
        with beside_captures():
            return _loaded(_load_module(cell, plan, device), plan, name, device)
    except RuntimeError as error:
        raise as_residency(error, f"load of {name} on cuda:{device}") from None


def _loaded(module: LoadedModule, plan: KernelPlan, name: str, device: int) -> Kernel:
    """A kernel of a module, with the attributes that its launch needs."""
    from cupy_backends.cuda.api import driver

    threads, shared, cluster, waits_for = plan.launch_shape
    function = module.function(name)
    if shared:
        driver.funcSetAttribute(function, _MAX_DYNAMIC_SHARED, shared)
    if cluster > _PORTABLE_CLUSTER:
        driver.funcSetAttribute(function, _NON_PORTABLE_CLUSTER, 1)
    kernel = Kernel(name, function, threads, shared, module, device)
    if waits_for != "none":
        resident = resident_blocks(function, threads, shared, cluster, device)
        check_room(kernel, cluster, resident)  # not every chip has room for large clusters
        if waits_for == "all":
            kernel = replace(kernel, resident=resident)
    return kernel


@lru_cache(maxsize=512)
def _load_module(cell: CellSpec, plan: KernelPlan, device: int) -> LoadedModule:
    """The kernels of a translation unit, on a device."""
    return LoadedModule(compile_plan(cell, plan).cubin)


class LoadedModule:
    """Kernels on the current device, unloaded with the last reference to them.

    Args:
        cubin: what NVRTC made.
    """

    def __init__(self, cubin: bytes) -> None:
        from cupy.cuda.function import Module

        self._module: Any = Module()
        with beside_captures():
            self._module.load(cubin)

    def function(self, name: str) -> int:
        """The driver's handle of a kernel."""
        return int(self._module.get_function(name).ptr)

    def __del__(self) -> None:
        # Elsewhere a capture may be under way, which an unloading would end.
        with suppress(Exception), beside_captures():
            self._module = None
