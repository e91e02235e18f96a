"""Libraries of C++ kernels: the plan of a call, their flags, how they are built and loaded."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path

import torch

from ...cellspec.cell import CellSpec
from ...codegen.cpu.plan import CpuPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.render import Source, Unit
from ...codegen.shape import Reverse
from ...errors import CompileError
from ..call.tensors import DTYPES
from ..store.compiled import compile_cell
from ..store.files import Cached, cached, file_name
from ..store.log import log
from .compiler import Done, begun, find_compiler, in_folder, openmp_flag, run, tool_digest

Words = tuple[str, ...]


def build(source: Source, compiler: Words, flags: Words) -> bytes:
    """Build a library in the first folder that has room for the compiler's files.

    `compiler` is the words that `find_compiler` gives. The flags lack those of OpenMP, and say
    nothing of what is built.
    """
    try:
        command, tool = [*compiler, *flags, openmp_flag(compiler, flags)], tool_digest(compiler)

        def objects() -> list[bytes]:
            return [_object(unit, command, tool) for unit in source.units]

        return in_folder(partial(_library, source, command, objects))
    except OSError as error:
        raise CompileError(
            f"{source.name}, the files of its compilation",
            str(error.filename),
            "a folder with room for a few MiB",
            "TMPDIR=… in the environment, with the path of such a folder",
        ) from error


def _object(unit: Unit, command: list[str], tool: str) -> bytes:
    """Return the compiled unit, from the cache folder or kept there for the next cell."""

    def make() -> bytes:
        begin = time.perf_counter()
        content = in_folder(partial(_compiled, unit, command))
        log(logging.DEBUG, "compiled %s in %.1f s", unit.name, time.perf_counter() - begin)
        return content

    digest = hashlib.sha256(repr((unit, command, tool)).encode()).hexdigest()[:32]
    return cached(file_name(unit.name, digest, "o"), make).content


def _compiled(unit: Unit, command: list[str], folder: Path) -> bytes:
    compiling = [*command, *_written(unit, folder)]
    _check(unit.name, compiling, run(compiling, folder))
    return Path(compiling[-1]).read_bytes()


def _library(
    source: Source, command: list[str], objects: Callable[[], Sequence[bytes]], folder: Path
) -> bytes:
    # The compiler works on the cell while the shared objects are made, the first time.
    compiling = [*command, *_written(source, folder)]
    with begun(compiling, folder) as end:
        found = objects()
        _check(source.name, compiling, end())
    parts = [compiling[-1]]
    for number, content in enumerate(found):
        parts.append(str(folder / f"{number}.o"))
        Path(parts[-1]).write_bytes(content)
    linking = [*command, "-shared", *parts, "-o", str(folder / "library.so")]
    _check(source.name, linking, run(linking, folder))
    return Path(linking[-1]).read_bytes()


def _written(unit: Source | Unit, folder: Path) -> list[str]:
    """Write a unit's files, and return the words that compile them."""
    code = folder / f"{unit.name[:80]}.cpp"
    code.write_text(unit.code, "utf-8")
    for name, text in unit.headers:
        header = folder / name
        header.parent.mkdir(exist_ok=True)
        header.write_text(text, "utf-8")
    return ["-c", str(code), "-o", str(code.with_suffix(".o"))]


def _check(name: str, command: list[str], done: Done) -> None:
    if done.returncode != 0:
        raise CompileError(
            f"{name}: the compiler refused the generated source",
            f"{' '.join([Path(command[0]).name, *command[1:]])}\n{done.stderr}",
            "a source that the compiler accepts",
            "a report to the authors of rnnc with this message, or another compiler in CXX",
        )


COMPUTED = (torch.float32, torch.float64)


@lru_cache(maxsize=64)
def plan_of(
    dtype: torch.dtype, reverse: Reverse = False, single_step: bool = False, masked: bool = False
) -> CpuPlan:
    """Return the plan of calls that are computed in a dtype."""
    return CpuPlan(DTYPES[dtype], reverse, single_step, masked)


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
        openmp_flag(compiler, _flags())
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
        refused = OSError("no folder can be written")
        if found.path is not None:
            try:
                return ctypes.CDLL(str(found.path))
            except OSError as error:
                refused = error
        # A disk from which nothing may be executed, or no disk: from memory.
        try:
            memory = os.memfd_create(
                "rnnc"
            )  # stays open: loaded libraries are known by their paths
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
