"""Files with a digest at their end, which reveals files that others cut short, changed or wrote.

Libraries among them are executed, so they must belong to this user or to root.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

# After the content, which a library or a text may well have: a loader reads no further than its
# tables say. The number is of what all files of the cache hold: another one is no file of ours.
_SEAL = b"\nrnnc 1 sha256 "
_LENGTH = len(_SEAL) + 64 + 1
UNFINISHED = ".part"
# Windows tells neither the owner of a file nor who else may write it by these numbers.
_HAS_OWNERS = hasattr(os, "geteuid")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file and its digest, by an atomic rename; its owner alone may write it."""
    unfinished = path.with_name(f".{secrets.token_hex(8)}{UNFINISHED}")
    # Not by `tempfile`, whose files nobody else may read.
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content + _SEAL + _digest(path.name, content) + b"\n")
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def read_sealed(path: Path) -> bytes | None:
    """Read a file that this user or root wrote under its name; return None for anything else."""
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if not _is_ours(about) or (_HAS_OWNERS and about.st_mode & _OTHERS_WRITE):
            return None
        content = file.read()
    body, seal = content[:-_LENGTH], content[-_LENGTH:]
    return body if seal == _SEAL + _digest(path.name, body) + b"\n" else None


def check_owner(path: Path) -> None:
    """Raise an `OSError` if another user decides the content of a folder or file of the cache."""
    about = path.stat()
    if not _is_ours(about):
        raise PermissionError(errno.EPERM, f"{path} belongs to another user")
    replaced = about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX
    if _HAS_OWNERS and stat.S_ISDIR(about.st_mode) and replaced:
        raise PermissionError(errno.EPERM, f"everyone may write it; chmod o-w {path}")


def _is_ours(about: os.stat_result) -> bool:
    return not _HAS_OWNERS or about.st_uid in (0, os.geteuid())


def _digest(name: str, content: bytes) -> bytes:
    # With the name, so that a file that was given another's is noticed too.
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest().encode()
