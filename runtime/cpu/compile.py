"""From source to a loaded library, by the system's C++ compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import lru_cache

from ...cellspec.cell import CellSpec
from ...codegen.cpu.plan import CpuPlan
from ...codegen.derive import derive
from ...codegen.render import render
from ..errors import CompileError
from ..store.digest import package_digest
from ..store.files import Cached, cached, file_name
from ..store.long_work import said_if_long
from .build import build, find_compiler, tool_digest

_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    # The kernels neither read errno nor unmask floating-point traps; NaN and infinities stay.
    "-fno-math-errno",
    "-fno-trapping-math",
    "-shared",
    "-fPIC",
)


# For checks of many cells: the same text in a third of the time.
_QUICK_FLAGS = (*(f for f in _FLAGS if f not in ("-march=native", "-O3")), "-O1")


def _flags() -> tuple[str, ...]:
    """The flags that ship; the quick ones where `RNNC_QUICK_COMPILE` is set."""
    return _QUICK_FLAGS if os.environ.get("RNNC_QUICK_COMPILE") else _FLAGS


@lru_cache(maxsize=512)
def cpu_library(cell: CellSpec, plan: CpuPlan) -> ctypes.CDLL:
    """The loaded kernels of a cell, compiled on first use and kept on disk.

    The file is found by what its text depends on (the cell, the plan, this package, compiler,
    flags and processor), so that a start from the cache derives and renders nothing.

    Args:
        cell: the cell.
        plan: the scalar type.

    Raises:
        NoCompilerError: no C++ compiler was found.
        CompileError: the compiler refused the source or had no room, or its product cannot be
            loaded.
    """
    compiler = find_compiler()
    # The docstring is left out: it changes a comment, no code.
    made_from = (
        cell.fingerprint,
        repr(plan),
        package_digest(),
        tool_digest(compiler),
        _flags(),
    )
    digest = hashlib.sha256(repr(made_from).encode()).hexdigest()[:32]

    def make() -> bytes:
        with said_if_long(
            f"deriving and compiling the C++ of {cell.name}",
            "Fewer operations in the cell take less.",
        ):
            return build(render(derive(cell), plan), compiler, _flags())

    return _load(cached(file_name(cell.name, digest, "so"), make))


def _load(found: Cached) -> ctypes.CDLL:
    refused = OSError("no folder can be written")
    if found.path is not None:
        try:
            return ctypes.CDLL(str(found.path))
        except OSError as error:
            refused = error
    # A disk from which nothing may be executed, or no disk: from memory.
    try:
        memory = os.memfd_create("rnnc")  # stays open: loaded libraries are known by their paths
        with open(memory, "wb", closefd=False) as file:
            file.write(found.content)
        return ctypes.CDLL(f"/proc/self/fd/{memory}")
    except (OSError, AttributeError) as error:
        raise CompileError(
            "a compiled library",
            str(refused),
            "a cache folder on a disk that allows programs to run",
            "RNNC_CACHE_DIR=… in the environment, with the path of such a folder",
        ) from error
