"""Libraries of C++ kernels: the plan of a call's, their flags, and their loading."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache, lru_cache
from itertools import product

import torch

from ...cellspec.cell import CellSpec
from ...codegen.cpu.plan import CpuPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.render import Source
from ...codegen.shape import Reverse
from ...errors import CompileError
from ..call.tensors import DTYPES
from ..store.compiled import compile_cell
from ..store.files import Cached
from .build import build
from .compiler import find_compiler, has_openmp, tool_digest

COMPUTED = (torch.float32, torch.float64)
_REVERSES: tuple[Reverse, ...] = (False, True, "half")
_KINDS = tuple(product(_REVERSES, (False, True), (False, True)))
_PLANS = {(dtype, *kind): CpuPlan(DTYPES[dtype], *kind) for dtype in COMPUTED for kind in _KINDS}


def plan_of(
    dtype: torch.dtype, reverse: Reverse = False, single_step: bool = False, masked: bool = False
) -> CpuPlan:
    """Return the plan of calls that are computed in a dtype."""
    return _PLANS[dtype, reverse, single_step, masked]


_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    # The kernels neither read errno nor unmask floating-point traps; NaN and infinities stay.
    "-fno-math-errno",
    "-fno-trapping-math",
    # For some processors g++ rounds products before it adds them, in loops of one shape and not of
    # another. Then a row's bits depend on how many rows are multiplied at once.
    "--param=avoid-fma-max-bits=0",
    "-fPIC",
)


# For checks of many cells: the same text in a fifth of the time.
_QUICK_FLAGS = (*(f for f in _FLAGS if f not in ("-march=native", "-O3")), "-Og")


def _flags() -> tuple[str, ...]:
    """Return the flags that ship, or the quick ones if `RNNC_QUICK_COMPILE` is set."""
    return _QUICK_FLAGS if os.environ.get("RNNC_QUICK_COMPILE") else _FLAGS


def check_compiler() -> None:
    """Raise a `NoCompilerError` if there is no C++ compiler, a `CompileError` if it is broken."""
    error = _error()
    if error is not None:
        raise CompileError(*error)


@cache
def _error() -> tuple[str, str, str, str] | None:
    """Return the parts of a broken compiler's error. The compiler runs once, not at each call."""
    compiler = find_compiler()
    try:
        has_openmp(compiler, _flags())
    except CompileError as error:
        return error.where, error.found, error.wanted, error.write
    except OSError:
        return None  # no folder has room; `build` says so of each
    return None


class CppToolchain:
    """The system's C++ compiler, and the loader of its libraries."""

    language = "C++"
    suffix = "so"
    arch = platform.machine() or "this CPU"

    def identity(self, plan: CpuPlan | KernelPlan) -> tuple[object, ...]:
        """Return the compiler, the processor and the flags, which do not depend on the plan."""
        return tool_digest(find_compiler()), _flags()

    def build(self, source: Source) -> bytes:
        """Build the library of a source."""
        return build(source, find_compiler(), _flags())

    def load(self, found: Cached) -> ctypes.CDLL:
        """Load a library."""
        return _load(found)

    def facts(self, library: ctypes.CDLL) -> str:
        """Return no text: a C++ compiler reports no registers."""
        return ""


@lru_cache(maxsize=512)
def cpu_library(cell: CellSpec, plan: CpuPlan) -> ctypes.CDLL:
    """Return the loaded kernels of a cell, compiled on first use and kept on disk.

    A process keeps what it has loaded, even if the environment names other flags afterwards:
    reading the environment takes longer than the rest of a cached call of this function.
    """
    return compile_cell(cell, plan, CppToolchain())


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
