"""Kernels that belong to no cell, compiled on first use or by a thread ahead of it."""

from __future__ import annotations

import hashlib
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from ...codegen.render import Unit, cuda_unit
from ..store.files import cached, file_name, look_up
from ..store.log import log
from .driver.device import nvrtc_version
from .nvrtc import Binary, built, compile_flags, unpacked

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
