"""The disk cache of compiled kernels: found by digest, made once, bounded, shared by processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import filelock
import platformdirs

_MIB = 1024 * 1024
_DEFAULT_SIZE = 1024  # MiB: some thousands of kernels


def cache_folder() -> Path:
    """Where compiled kernels are kept: `RNNC_CACHE_DIR`, or the user's cache folder."""
    return Path(os.environ.get("RNNC_CACHE_DIR") or platformdirs.user_cache_dir("rnnc"))


def cached_file(name: str, make: Callable[[Path], None]) -> Path:
    """The cached file of that name, made if it is not there.

    Args:
        name: the file's name; it must hold the digest of everything that the content depends on.
        make: writes the content to the path that it is given.

    Returns:
        The file. Processes that ask at once wait for one of them to make it; it appears by an
        atomic rename, so that nobody ever sees a part of it. Where the folder outgrows
        `RNNC_CACHE_SIZE`, the files that were used longest ago go.
    """
    folder = cache_folder()
    target = folder / name
    if target.exists():
        with suppress(OSError):  # a folder that is shared and read-only serves as well
            os.utime(target)
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / f"{name}.lock"):
        if not target.exists():
            handle, temporary = tempfile.mkstemp(dir=folder, suffix=f".{name}")
            os.close(handle)
            try:
                make(Path(temporary))
                Path(temporary).replace(target)
            finally:
                Path(temporary).unlink(missing_ok=True)
            _shrink(folder, keep=target)
    return target


def _shrink(folder: Path, keep: Path) -> None:
    """Remove what was used longest ago, until the rest is within bounds."""
    files = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process shrinks the folder too
            stat = path.stat()
            if path != keep and path.suffix in _KERNELS:
                files.append((stat.st_mtime, stat.st_size, path))
    excess = sum(size for _, size, _ in files) + keep.stat().st_size - _size_limit()
    for _, size, path in sorted(files):
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
        excess -= size


_KERNELS = {".so", ".cubin", ".memo"}


def _size_limit() -> int:
    """Bytes that the folder may hold: `RNNC_CACHE_SIZE` in MiB; nonsense counts as unset."""
    wish = os.environ.get("RNNC_CACHE_SIZE", "")
    return (int(wish) if wish.isdecimal() else _DEFAULT_SIZE) * _MIB
