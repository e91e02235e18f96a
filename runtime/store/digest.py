"""Digest of this package's text, which names every file in the cache folder."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata, resources
from pathlib import Path


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
