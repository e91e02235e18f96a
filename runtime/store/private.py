"""Folder of this process alone, for use if the cache folder cannot be used."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from ..process.caller import warn

# Memory, which is there where a container has no disk to write to.
MEMORY_FOLDER = "/dev/shm"

_folder: Path | None = None
_said: set[str] = set()


def private_folder() -> Path | None:
    """Return the private folder, if this process, or the one it was forked from, has made one."""
    return _folder if _folder is not None and _folder.is_dir() else None


def make_private_folder(instead_of: str, reason: OSError | RuntimeError) -> Path | None:
    """Return the private folder, made once and removed at the end; warn once per cache folder."""
    global _folder
    if instead_of not in _said:
        _said.add(instead_of)
        why = getattr(reason, "strerror", None) or str(reason)
        warn(
            f"rnnc cannot keep its files in the cache folder {instead_of} ({why}). It uses a"
            " private temporary folder, and compiles again in the next process. Set RNNC_CACHE_DIR"
            " to a folder of your own that can be written."
        )
    if private_folder() is None:
        _folder = _temporary_folder()
        if _folder is not None:
            atexit.register(_remove, _folder, os.getpid())
    return _folder


def _temporary_folder() -> Path | None:
    for parent in (None, MEMORY_FOLDER):
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="rnnc-", dir=parent))
    return None


def _remove(folder: Path, maker: int) -> None:
    # A forked process uses the folder of its parent, and leaves it there.
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)
