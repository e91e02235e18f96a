"""Files with a digest at their end: what was cut short, changed or written by others is noticed."""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

# After the content, which a library or a text may well have: a loader reads no further than its
# tables say. The number is of what all files of the cache hold: another one is no file of ours.
_SEAL = b"\nrnnc 1 sha256 "
_LENGTH = len(_SEAL) + 64 + 1
UNFINISHED = ".part"


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file with its digest; it appears by an atomic rename, with the mode of the umask.

    Args:
        path: the file, whose folder exists.
        content: what `read_sealed` gives back.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    unfinished = path.with_name(f".{secrets.token_hex(8)}{UNFINISHED}")
    # Not by `tempfile`, whose files are for their owner alone.
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content + _SEAL + _digest(path.name, content) + b"\n")
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def read_sealed(path: Path) -> bytes | None:
    """The content of a file that was written under its name; None for anything else.

    Args:
        path: the file.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    content = path.read_bytes()
    body, seal = content[:-_LENGTH], content[-_LENGTH:]
    return body if seal == _SEAL + _digest(path.name, body) + b"\n" else None


def _digest(name: str, content: bytes) -> bytes:
    # With the name, so that a file that was given another's is noticed too.
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest().encode()
