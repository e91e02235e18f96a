"""Results of symbolic work or a search, kept on disk, and the digests that name such files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any, TypeVar

from .files import cached, file_name, keep


def package_digest() -> str:
    """Return a digest of every file on which the text of a cell's kernels depends."""
    return _digest("cellspec", "codegen", "templates")


def runtime_digest() -> str:
    """Return a digest of code that decides sizes of tensors between a forward and its backward."""
    return _digest("cellspec", "codegen", "templates", "runtime")


@cache
def _digest(*rooms: str) -> str:
    digest = hashlib.sha256(metadata.version("sympy").encode())
    for room in rooms:
        root = resources.files(f"rnnc.{room}")
        files = sorted(p for p in Path(str(root)).rglob("*") if p.suffix in _TEXT)
        for file in files:
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


_TEXT = {".py", ".jinja", ".h", ".cpp", ".cuh"}


Value = TypeVar("Value")


def remembered(
    name: str, made_from: str, make: Callable[[], Any], read: Callable[[Any], Value]
) -> Value:
    """Read a value that an earlier process has left on disk, or make it.

    `made_from` is all that the value depends on, beside this package and its tools. `make` gives
    types that JSON has; its errors are the caller's. `read` makes the value from JSON. If it raises
    `ValueError`, `KeyError`, `TypeError` or `AttributeError`, the file is made again.
    """
    digest = hashlib.sha256(f"{made_from} {package_digest()}".encode()).hexdigest()[:32]
    file = file_name(name, digest, "memo")

    def made() -> bytes:
        return json.dumps(make()).encode()

    found = cached(file, made).content
    try:
        return read(json.loads(found))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        again = made()
        keep(file, again)
        return read(json.loads(again))
