"""Disk cache: found by digest, made once, bounded, measured, shared by processes and users."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import filelock
import platformdirs

from ..process.caller import warn
from ..process.turns import SHORT_TURNS
from .private import make_private_folder, private_folder
from .sealed import UNFINISHED, check_owner, read_sealed, write_sealed

_MIB = 1024 * 1024
_DEFAULT_SIZE = 1024  # MiB: some thousands of kernels
_QUIET, _PATIENCE = 10, 120  # seconds of waiting until it is said, and until it ends
_ABANDONED = 24 * 3600  # seconds, after which nobody finishes an unfinished file


class Cached(NamedTuple):
    """Cached content, and the file that begins with it; None if no folder could be written."""

    content: bytes
    path: Path | None


def cache_folder() -> Path:
    """Return the folder of kernels: `RNNC_CACHE_DIR`, or the user's; a RuntimeError for no home."""
    return Path(_wish()).expanduser()


def _wish() -> str:
    return os.environ.get("RNNC_CACHE_DIR") or platformdirs.user_cache_dir("rnnc")


def file_name(cell: str, digest: str, kind: str) -> str:
    """Return the name of a file. A long name of a cell is cut; the digest tells files apart."""
    return f"{cell[:80]}-{digest}.{kind}"


def cached(name: str, make: Callable[[], bytes]) -> Cached:
    """Return the content that is cached under a name, made if it is not there.

    Processes that ask at once wait for one of them to make it. A damaged file is made again. If the
    folder outgrows `RNNC_CACHE_SIZE`, the files that were used longest ago are removed. The name
    must hold the digest of everything that the content depends on. Errors of `make` are the
    caller's.
    """
    found = look_up(name)
    if found is not None:
        return found
    folder = _usable_folder(name)
    with SHORT_TURNS:
        if folder is None:
            return Cached(make(), None)
        with _alone(folder, name):
            return _found(folder, name) or _kept(folder, name, make())


def look_up(name: str) -> Cached | None:
    """Return the content under a name, in the cache folder or a private one, if there is any."""
    with suppress(RuntimeError):
        found = _found(cache_folder(), name)
        if found is not None:
            return found
    private = private_folder()
    return _found(private, name) if private else None


def keep(name: str, content: bytes) -> None:
    """Write the content that `look_up` returns from now on."""
    folder = _usable_folder(name)
    if folder is not None:
        _kept(folder, name, content)


def _found(folder: Path, name: str) -> Cached | None:
    path = folder / name
    with suppress(OSError):
        check_owner(folder)
        content = read_sealed(path)
        if content is not None:
            with suppress(OSError):  # a folder that is shared and read-only serves as well
                os.utime(path)
            return Cached(content, path)
    return None


def _usable_folder(name: str) -> Path | None:
    """Return the cache folder, or a private one if that cannot be written, or hides the file."""
    try:
        folder = cache_folder()
        folder.mkdir(0o755, parents=True, exist_ok=True)
        check_owner(folder)
        tempfile.TemporaryFile(dir=folder).close()
        with suppress(FileNotFoundError):
            # Another user's, or root's who keeps it to themselves, is not ours to replace.
            check_owner(folder / name)
            (folder / name).open("rb").close()
    except (OSError, RuntimeError) as error:
        return make_private_folder(_wish(), error)
    return folder


def _kept(folder: Path, name: str, content: bytes) -> Cached:
    """Return the content, written to the folder, or else to a private one, or else to none."""
    try:
        return _written(folder, name, content)
    except OSError as error:
        other = None if folder == private_folder() else make_private_folder(str(folder), error)
    if other is not None:
        with suppress(OSError):
            return _written(other, name, content)
    return Cached(content, None)


def _written(folder: Path, name: str, content: bytes) -> Cached:
    write_sealed(folder / name, content)
    _shrink(folder, name)
    return Cached(content, folder / name)


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Let one process in at a time; if that is impossible, work done twice does no harm."""
    path = folder / f"{name}.lock"
    lock = filelock.FileLock(path)
    # Where there are no locks, filelock of some versions has an error of another type.
    with suppress(OSError, NotImplementedError):
        _wait_for(lock, name)
    try:
        yield
    finally:
        if lock.is_locked:
            # Ours. Who waits for it looks for the file next, which is there, or takes a new lock.
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                lock.release()


def _wait_for(lock: filelock.BaseFileLock, name: str) -> None:
    try:
        lock.acquire(timeout=_QUIET)
    except filelock.Timeout:
        warn(
            f"rnnc has waited {_QUIET} s for another process to compile {name}, and waits for up to"
            f" {_PATIENCE} s"
        )
        lock.acquire(timeout=_PATIENCE - _QUIET)


def _shrink(folder: Path, latest: str) -> None:
    """Remove files that were used longest ago, but the latest, until the rest is within bounds.

    Other processes shrink the folder too, and files of other users may have to stay.
    """
    files, excess = [], -size_limit()
    for path, stat in _entries(folder):
        if path.suffix in _KERNELS:
            excess += stat.st_size
            files.append((path.name == latest, stat.st_mtime, stat.st_size, path))
        elif path.name.endswith(UNFINISHED) and time.time() - stat.st_mtime > _ABANDONED:
            with suppress(OSError):
                path.unlink()
    for is_latest, _, size, path in sorted(files):
        if excess <= 0 or is_latest:
            return
        with suppress(OSError):
            path.unlink()
            excess -= size


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the files of a folder, which other processes may remove meanwhile."""
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                found.append((path, path.lstat()))
    return found


_KERNELS = {".so", ".o", ".cubin", ".memo"}


def size_limit() -> int:
    """Return the bytes that the folder may hold: `RNNC_CACHE_SIZE` in MiB if it is a number."""
    wish = os.environ.get("RNNC_CACHE_SIZE", "")
    return (int(wish) if wish.isdecimal() else _DEFAULT_SIZE) * _MIB


# The folder may be the user's own and hold other files: only these are rnnc's.
_NAME = re.compile(r".+-[0-9a-f]{32}\.(so|o|cubin|memo|plan)(\.lock)?|\.[0-9a-f]{16}\.part")


class Usage(NamedTuple):
    """Files of the cache, their bytes, and the bytes that the cache may hold."""

    files: int
    bytes: int
    limit: int


def cache_usage() -> Usage:
    """Return the present size of the cache."""
    return _usage(_files())


def clear_cache() -> Usage:
    """Remove the files of the cache, and return their number and size; other files stay."""
    found = _files()
    for path in found:
        with suppress(OSError):
            path.unlink()
    return _usage({path: size for path, size in found.items() if not path.exists()})


def _files() -> dict[Path, int]:
    """Return the files of the cache with their sizes."""
    with suppress(RuntimeError):
        entries = _entries(cache_folder())
        return {path: stat.st_size for path, stat in entries if _NAME.fullmatch(path.name)}
    return {}


def _usage(files: dict[Path, int]) -> Usage:
    return Usage(len(files), sum(files.values()), size_limit())
