"""The disk cache of compiled kernels: found by digest, made once, safe for many processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import filelock
import platformdirs


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
        atomic rename, so that nobody ever sees a part of it.
    """
    folder = cache_folder()
    target = folder / name
    if target.exists():
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
    return target
