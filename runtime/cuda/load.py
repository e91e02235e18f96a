"""Kernels of a plan and those of no cell, compiled on first use and loaded once per device."""

from __future__ import annotations

import hashlib
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final
from weakref import finalize

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan, LaunchShape
from ...codegen.cuda.mma import WARP
from ...codegen.render import Unit, cuda_unit
from ..store.files import cached, file_name, look_up
from ..store.log import log
from .driver.capture import beside_captures
from .driver.device import device_limits, is_described, nvrtc_version
from .driver.driver import as_residency, resident_blocks
from .launch import Kernel, check_room
from .nvrtc import Binary, built, compile_flags, compile_plan, unpacked

_DTYPE: Final = "float32"  # whose flags round divisions as IEEE 754 does


def unit_of(file: str, to: str = "") -> Unit:
    """Return the unit of a file; its kernels write the type `to`, if that is given."""
    unit = cuda_unit(file)
    if not to:
        return unit
    return unit._replace(name=f"{unit.name}_{to}", code=f"#define RNNC_TO {to}\n{unit.code}")


def compile_unit(unit: Unit, arch: str) -> Binary:
    """Compile a translation unit that belongs to no cell, or find it compiled."""

    def make() -> bytes:
        try:
            return _begun(unit, arch).result()
        finally:
            _UNDER_WAY.clear()  # from now on the file has it; what failed is tried again

    return unpacked(cached(_file_of(unit, arch), make).content)


def begin_to_compile(unit: Unit, arch: str) -> None:
    """Let a thread compile a unit that `compile_unit` will be asked for, and return at once."""
    if look_up(_file_of(unit, arch)) is None:
        _begun(unit, arch)


def _file_of(unit: Unit, arch: str) -> str:
    """Return the name of the file that keeps a unit's binary."""
    key = repr((unit, compile_flags(_DTYPE, arch), nvrtc_version()))
    return file_name(unit.name, hashlib.sha256(key.encode()).hexdigest()[:32], "cubin")


_UNDER_WAY: dict[tuple[Unit, str], Future[bytes]] = {}


def _begun(unit: Unit, arch: str) -> Future[bytes]:
    """Return a unit's binary, which a thread compiles; begun once."""
    found = _UNDER_WAY.get((unit, arch))
    if found is not None:
        return found

    def make() -> bytes:
        begin = time.perf_counter()
        content = built(unit, arch, _DTYPE)
        seconds = time.perf_counter() - begin
        log(logging.INFO, "compiled CUDA of %s for %s in %.1f s", unit.name, arch, seconds)
        return content

    executor = ThreadPoolExecutor(1, "rnnc compiles")
    try:
        return _UNDER_WAY.setdefault((unit, arch), executor.submit(make))
    finally:
        executor.shutdown(wait=False)


_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_PORTABLE_CLUSTER = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_PORTABLE_CLUSTER = 8  # blocks: CUDA C++ Programming Guide, "Thread Block Clusters"


@lru_cache(maxsize=1024)
def load_kernel(cell: CellSpec, plan: KernelPlan, name: str, device: int) -> Kernel:
    """Return a kernel of a cell and plan, compiled on first use, on the current device."""
    if is_described(device):
        return _described(plan.launch_shape, name, device)
    try:
        with beside_captures():
            return loaded(_load_module(cell, plan, device), plan.launch_shape, name, device)
    except RuntimeError as error:
        raise as_residency(error, f"load of {name} on cuda:{device}") from None


@lru_cache(maxsize=64)
def unit_kernel(file: str, threads: int, name: str, device: int, to: str = "") -> Kernel:
    """Return a kernel of `unit_of` a file, loaded on the current device."""
    shape = LaunchShape(threads)
    if is_described(device):
        return _described(shape, name, device)
    binary = compile_unit(unit_of(file, to), device_limits(device).arch)
    with beside_captures():
        return loaded(LoadedModule(binary.cubin), shape, name, device)


def _described(shape: LaunchShape, name: str, device: int) -> Kernel:
    """Return a kernel of a GPU that is not there: blocks run as memory and threads allow."""
    limits, (threads, shared, _, waits_for) = device_limits(device), shape
    each = limits.blocks_per_multiprocessor(threads // WARP, 1, shared)
    resident = each * limits.multiprocessors if waits_for == "all" else None
    return Kernel(name, 0, threads, shared, None, device, resident)


def loaded(module: LoadedModule, shape: LaunchShape, name: str, device: int) -> Kernel:
    """Return a kernel of a module, with the attributes that its launch needs."""
    from cupy_backends.cuda.api import driver

    threads, shared, cluster, waits_for = shape
    function = module.function(name)
    if shared:
        driver.funcSetAttribute(function, _MAX_DYNAMIC_SHARED, shared)
    if cluster > _PORTABLE_CLUSTER:
        driver.funcSetAttribute(function, _NON_PORTABLE_CLUSTER, 1)
    kernel = Kernel(name, function, threads, shared, module, device)
    if waits_for != "none":
        resident = resident_blocks(
            (function, threads, shared), cluster, device_limits(device).multiprocessors
        )
        check_room(kernel, cluster, resident)  # not every chip has room for large clusters
        if waits_for == "all":
            kernel = replace(kernel, resident=resident)
    return kernel


@lru_cache(maxsize=512)
def _load_module(cell: CellSpec, plan: KernelPlan, device: int) -> LoadedModule:
    """Return the kernels of a translation unit, on a device."""
    return LoadedModule(compile_plan(cell, plan).cubin)


class LoadedModule:
    """Kernels on the current device, unloaded with the last reference to them."""

    def __init__(self, cubin: bytes) -> None:
        from cupy.cuda.function import Module

        module = Module()
        with beside_captures():
            module.load(cubin)
        self._loaded: list[Any] = [module]  # the only reference, which `_unload` drops
        # Not at the end of the process, which has no driver left.
        finalize(self, _unload, self._loaded).atexit = False

    def function(self, name: str) -> int:
        """Return the driver's handle of a kernel."""
        return int(self._loaded[0].get_function(name).ptr)


def _unload(loaded: list[Any]) -> None:
    # Elsewhere a capture may be under way, which an unloading would end.
    with suppress(Exception), beside_captures():
        loaded.clear()
