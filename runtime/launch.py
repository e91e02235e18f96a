"""Kernels on a device: loaded once a device, launched on torch's current stream."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from ..cellspec.cell import CellSpec
from ..codegen.alternating_plan import AlternatingPlan
from ..codegen.cluster_plan import ClusterPlan
from ..codegen.grid_plan import GridPlan
from ..codegen.plan import CudaPlan
from .errors import ResidencyError
from .nvrtc import compile_plan
from .residency import resident_blocks

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
        resident: where its blocks wait for each other, how many of them the device holds at once;
            else none, and a launch may have any number of blocks.
    """

    name: str
    function: int
    threads: int
    shared: int
    module: Any
    device: int
    resident: int | None = None

    def __call__(self, grid: tuple[int, int, int], arguments: ctypes.Structure) -> None:
        """Launch on torch's current stream of the current device; returns at once.

        Args:
            grid: blocks in x, y and z.
            arguments: passed by value.

        Raises:
            ResidencyError: the blocks wait for each other, and the device cannot hold all of them.
        """
        from cupy_backends.cuda.api import driver

        # CuPy's own launch takes a smaller grid where this one does not fit, the driver refuses it.
        if self.resident is not None:
            self._check_room(grid)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        launch = (
            self.function,
            *grid,
            *(self.threads, 1, 1),
            self.shared,
            torch._C._cuda_getCurrentRawStream(self.device),
            ctypes.addressof(pointers),
        )
        if self.resident is None:
            driver.launchKernel(*launch, 0)
        else:
            driver.launchCooperativeKernel(*launch)

    def _check_room(self, grid: tuple[int, int, int]) -> None:
        blocks = grid[0] * grid[1] * grid[2]
        assert self.resident is not None
        if blocks > self.resident:
            raise ResidencyError(
                f"launch of {self.name} on cuda:{self.device}\n"
                f"  found:  {blocks} blocks that wait for each other, of {self.threads} threads and"
                f" {self.shared} bytes of shared memory\n"
                f"  wanted: at most {self.resident}: what the device holds at once\n"
                '  write:  variant="alternating", fewer heads, or a smaller head_dim'
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
        threads, shared, cluster = _sizes(plan, name)
        function = module.get_function(name).ptr
        if shared:
            driver.funcSetAttribute(function, _MAX_DYNAMIC_SHARED, shared)
        if cluster > _PORTABLE_CLUSTER:
            driver.funcSetAttribute(function, _NON_PORTABLE_CLUSTER, 1)
        resident = None
        if isinstance(plan, GridPlan):
            resident = resident_blocks(function, threads, shared, cluster, device)
        kernels[name] = Kernel(name, function, threads, shared, module, device, resident)
    return kernels


def _sizes(plan: CudaPlan, name: str) -> tuple[int, int, int]:
    """Threads and bytes of shared memory of a block, and blocks of a cluster."""
    if isinstance(plan, AlternatingPlan):
        return plan.threads, 0, 1
    kernel = plan.kernels[name]
    if isinstance(plan, ClusterPlan | GridPlan):
        return kernel.threads, kernel.shared, plan.kernels[name].cluster
    return kernel.threads, kernel.shared, 1
