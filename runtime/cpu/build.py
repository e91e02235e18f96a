"""The system's C++ compiler: found, told from others, and run where there is room for its files."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from ...codegen.render import Source
from ..errors import CompileError, NoCompilerError
from ..store.files import cache_folder
from ..store.private import MEMORY_FOLDER


@cache
def find_compiler() -> tuple[str, ...]:
    """Find the C++ compiler: `$CXX`, split as a shell splits it, else `c++`.

    Returns:
        Its path, and the words behind it: options, or the compiler that a `ccache` runs.

    Raises:
        NoCompilerError: there is none.
    """
    wish = os.environ.get("CXX", "")
    try:
        name, *others = shlex.split(wish) or ["c++"]
    except ValueError as error:
        raise _no_compiler(f"CXX={wish}: {error}") from error
    path = shutil.which(name)
    if path is None:
        raise _no_compiler(f"no `{name}` on the PATH")
    return path, *others


def _no_compiler(found: str) -> NoCompilerError:
    advice = "install one (Debian: the package g++), or set CXX to its path"
    return NoCompilerError("C++ compiler", found, "a C++17 compiler, for example g++", advice)


def build(source: Source, compiler: tuple[str, ...], flags: tuple[str, ...]) -> bytes:
    """The library of a source, built in the first folder that has room for the compiler's files.

    Args:
        source: its text and headers.
        compiler: the words that `find_compiler` gives.
        flags: for the compiler, beside those of OpenMP.

    Raises:
        CompileError: the compiler refused the source, or no folder has room.
    """
    full: list[str] = []
    for place in _places():
        try:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                return _built_in(Path(folder), source, compiler, flags)
        except OSError as error:
            full.append(f"{place}: {error.strerror or error}")
    raise CompileError(
        f"{source.name}, the files of its compilation",
        "; ".join(full),
        "a folder with room for a few MiB",
        "TMPDIR=… in the environment, with the path of such a folder",
    )


def _places() -> Iterator[str]:
    """Folders for files that go when the compiler has ended."""
    for find in (tempfile.gettempdir, lambda: str(cache_folder())):
        with suppress(OSError, RuntimeError):
            yield find()
    yield MEMORY_FOLDER


def _built_in(
    folder: Path, source: Source, compiler: tuple[str, ...], flags: tuple[str, ...]
) -> bytes:
    code, target = folder / f"{source.name[:80]}.cpp", folder / "library.so"
    code.write_text(source.code, "utf-8")
    for name, text in source.headers:
        header = folder / name
        header.parent.mkdir(exist_ok=True)
        header.write_text(text, "utf-8")
    if compiler not in _openmp:
        _openmp[compiler] = _has_openmp(compiler, folder)
    used = [*flags, "-fopenmp" if _openmp[compiler] else "-fopenmp-simd"]
    done = _run([*compiler, *used, str(code), "-o", str(target)], folder)
    if done.returncode != 0:
        raise CompileError(
            f"{source.name}: the compiler refused the generated source",
            f"{' '.join([Path(compiler[0]).name, *compiler[1:], *used])}\n{done.stderr}",
            "a source that the compiler accepts",
            "a report to the authors of rnnc with this message, or another compiler in CXX",
        )
    return target.read_bytes()


_openmp: dict[tuple[str, ...], bool] = {}


def _has_openmp(compiler: tuple[str, ...], folder: Path) -> bool:
    probe = folder / "probe.cpp"
    probe.write_text("#include <omp.h>\nint threads() { return omp_get_max_threads(); }\n", "utf-8")
    command = [*compiler, "-fopenmp", str(probe), "-o", os.devnull, "-shared", "-fPIC"]
    return _run(command, folder).returncode == 0


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the compiler; a folder without room is an `OSError`, whoever met it."""
    # Its messages in English; what lies between its stages goes to the same folder.
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        if done.returncode != 0 and os.strerror(number) in done.stderr:
            raise OSError(number, os.strerror(number))
    return done


def tool_digest(compiler: tuple[str, ...]) -> str:
    """Compiler and processor: `-march=native` makes a binary that other processors may refuse.

    Args:
        compiler: the words that `find_compiler` gives.
    """
    return " ".join([*map(_tool, compiler), _processor()])


def _tool(word: str) -> str:
    """A program with its size and time; of another word, such as an option, its text."""
    path = shutil.which(word)
    if path is None:
        return word
    stat = Path(path).resolve().stat()
    return f"{Path(path).resolve()} {stat.st_size} {stat.st_mtime_ns}"


@cache
def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(
        sorted({line for line in info.read_text("utf-8").splitlines() if line.startswith(wanted)})
    )
