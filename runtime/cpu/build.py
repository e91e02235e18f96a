"""Libraries of generated C++, linked with the objects that all cells share."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ...codegen.render import Source, Unit
from ...errors import CompileError
from ..store.files import cached, file_name
from ..store.log import log
from .compiler import Done, begun, has_openmp, in_folder, run, tool_digest

Words = tuple[str, ...]


def build(source: Source, compiler: Words, flags: Words) -> bytes:
    """Build a library in the first folder that has room for the compiler's files.

    `compiler` is the words that `find_compiler` gives. The flags lack those of OpenMP, and say
    nothing of what is built.
    """
    try:
        openmp = "-fopenmp" if has_openmp(compiler, flags) else "-fopenmp-simd"
        command, tool = [*compiler, *flags, openmp], tool_digest(compiler)

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
