"""The system's C++ compiler: found, told from others, and run where there is room for its files."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from ...errors import CompileError, NoCompilerError
from ..store.files import cache_folder
from ..store.memo import remembered
from ..store.private import MEMORY_FOLDER

Made = TypeVar("Made")


def find_compiler() -> tuple[str, ...]:
    """Find the C++ compiler: `$CXX`, split as a shell splits it, else `c++`.

    The result is its path, and the words behind it: options, or the compiler that a `ccache` runs.
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


def in_folder(work: Callable[[Path], Made]) -> Made:
    """Do work in the first temporary folder that has room; the `OSError` of none names all."""
    full: list[str] = []
    last = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for place in _places():
        try:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                return work(Path(folder))
        except OSError as error:
            full.append(f"{place}: {error.strerror or error}")
            last = error
    raise OSError(last.errno, last.strerror, "; ".join(full)) from last


def _places() -> Iterator[str]:
    """Yield folders for temporary files of the compiler."""
    for find in (tempfile.gettempdir, lambda: str(cache_folder())):
        with suppress(OSError, RuntimeError):
            yield find()
    yield MEMORY_FOLDER


# With OpenMP, and what any C++ compiler takes.
_PROBES = {
    "-fopenmp": "#include <omp.h>\nint threads() { return omp_get_max_threads(); }\n",
    "-fopenmp-simd": "#include <cmath>\nfloat root(float x) { return std::sqrt(x); }\n",
}


def openmp_flag(compiler: tuple[str, ...], flags: tuple[str, ...]) -> str:
    """Return the flag of OpenMP that a compiler takes, which compiles a few lines once."""
    made_from = f"openmp {tool_digest(compiler)} {flags}"
    kept = {flag: flag for flag in _PROBES}  # what is damaged is not among them

    def probed() -> str:
        return in_folder(partial(_probed, compiler, flags))

    return remembered("compiler", made_from, probed, kept.__getitem__)


def _probed(compiler: tuple[str, ...], flags: tuple[str, ...], folder: Path) -> str:
    probe = folder / "probe.cpp"
    for openmp, text in _PROBES.items():
        probe.write_text(text, "utf-8")
        library = ["-shared", str(probe), "-o", str(folder / "probe.so")]
        done = run([*compiler, *flags, openmp, *library], folder)
        if done.returncode == 0:
            return openmp
    said = done.stderr.strip() or f"it says nothing, and ends with the status {done.returncode}"
    raise CompileError(
        "C++ compiler",
        f"`{shlex.join(compiler)}` does not compile a line of C++: {said}",
        f"a C++17 compiler that takes {' '.join(flags)}",
        "another compiler in CXX",
    )


Done = subprocess.CompletedProcess[str]


def run(command: list[str], folder: Path) -> Done:
    """Run the compiler, whose last word is the file that it writes."""
    with begun(command, folder) as end:
        return end()


@contextmanager
def begun(command: list[str], folder: Path) -> Iterator[Callable[[], Done]]:
    """Run the compiler beside the caller, who calls what this yields to wait for its end.

    A folder without room is an `OSError` then. A caller who does not wait stops it.
    """
    # Its messages in English; what lies between its stages goes to the same folder.
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command, env=environment, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        # A file that is no program. Another folder would not help.
        refused = Done(command, 126, "", f"{command[0]}: {error.strerror}")
        yield lambda: refused
        return
    with process:
        try:
            yield lambda: _end(process, command)
        finally:
            process.terminate()  # nothing, if it has ended


def _end(process: subprocess.Popen[str], command: list[str]) -> Done:
    out, err = process.communicate()
    status = process.returncode
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        if status != 0 and os.strerror(number) in err:
            raise OSError(number, os.strerror(number))
    if status == 0 and not Path(command[-1]).exists():
        return Done(command, 1, "", "it succeeds, and writes no file")
    return Done(command, status, out, err)


def tool_digest(compiler: tuple[str, ...]) -> str:
    """Return a text of compiler and processor: `-march=native` makes a binary for this one."""
    return " ".join([*map(_tool, compiler), _processor()])


def _tool(word: str) -> str:
    """Return a program's path, size and time; for another word, such as an option, the word."""
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
