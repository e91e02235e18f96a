"""Size of the disk cache, and its removal."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .files import cache_folder, size_limit

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
    left = {path for path in found if path.exists()}
    return _usage({path: size for path, size in found.items() if path not in left})


def _files() -> dict[Path, int]:
    """Return the files of the cache with their sizes."""
    found: dict[Path, int] = {}
    with suppress(OSError, RuntimeError):
        for path in cache_folder().iterdir():
            if _NAME.fullmatch(path.name):
                with suppress(OSError):
                    found[path] = path.lstat().st_size
    return found


def _usage(files: dict[Path, int]) -> Usage:
    return Usage(len(files), sum(files.values()), size_limit())
