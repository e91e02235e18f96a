"""From source to a loaded library, by the system's C++ compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache, lru_cache
from importlib import metadata, resources
from pathlib import Path

from ..cellspec.cell import CellSpec
from ..codegen.derive import derive
from ..codegen.plan import CpuPlan
from ..codegen.render import Source, render
from .cache import cached_file
from .errors import CompileError, NoCompilerError

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
        CompileError: the compiler refused the source, or its product cannot be loaded.
    """
    compiler = find_compiler()
    # The docstring is left out: it changes a comment, no code.
    made_from = (
        cell.fingerprint,
        repr(plan),
        package_digest(),
        _tool_digest(compiler),
        _flags(),
    )
    digest = hashlib.sha256(repr(made_from).encode()).hexdigest()[:32]

    def make(target: Path) -> None:
        _build(render(derive(cell), plan), compiler, target)

    path = cached_file(f"{cell.name}-{digest}.so", make)
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        # Not a library of this machine, whatever its name says: make it again, once.
        path.unlink(missing_ok=True)
        cached_file(path.name, make)
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise CompileError(f"{path.name} does not load: {error}") from error


@cache
def find_compiler() -> str:
    """The C++ compiler: `$CXX`, else `c++`.

    Raises:
        NoCompilerError: there is none.
    """
    wish = os.environ.get("CXX") or "c++"
    path = shutil.which(wish)
    if path is None:
        raise NoCompilerError(
            f"C++ compiler\n  found:  no `{wish}` on the PATH\n"
            "  wanted: a C++17 compiler, for example g++\n"
            "  write:  install one (Debian: the package g++), or set CXX to its path"
        )
    return path


def _build(source: Source, compiler: str, target: Path) -> None:
    openmp = ["-fopenmp"] if _has_openmp(compiler) else ["-fopenmp-simd"]
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / f"{source.name}.cpp"
        code.write_text(source.code)
        for name, text in source.headers:
            header = Path(folder) / name
            header.parent.mkdir(exist_ok=True)
            header.write_text(text)
        command = [compiler, *_flags(), *openmp, str(code), "-o", str(target)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CompileError(
            f"{source.name}: the compiler refused the generated source\n"
            f"  command: {' '.join([Path(compiler).name, *_flags(), *openmp])}\n{result.stderr}"
        )


@cache
def _has_openmp(compiler: str) -> bool:
    probe = subprocess.run(
        [compiler, "-fopenmp", "-x", "c++", "-", "-o", os.devnull, "-shared", "-fPIC"],
        input="#include <omp.h>\nint threads() { return omp_get_max_threads(); }\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return probe.returncode == 0


@cache
def package_digest() -> str:
    """A digest of every file that decides what text a cell becomes."""
    digest = hashlib.sha256(metadata.version("sympy").encode())
    for room in ("cellspec", "codegen", "templates"):
        root = resources.files(f"rnnc.{room}")
        files = sorted(p for p in Path(str(root)).rglob("*") if p.suffix in _TEXT)
        for file in files:
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


_TEXT = {".py", ".jinja", ".h", ".cuh"}


def _tool_digest(compiler: str) -> str:
    """Compiler and processor: `-march=native` makes a binary that other processors may refuse."""
    stat = Path(compiler).resolve().stat()
    return f"{Path(compiler).resolve()} {stat.st_size} {stat.st_mtime_ns} {_processor()}"


@cache
def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(
        sorted({line for line in info.read_text().splitlines() if line.startswith(wanted)})
    )
