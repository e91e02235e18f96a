"""Results of symbolic work or a search, kept on disk beside the kernels that come of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

from .digest import package_digest
from .files import cached, file_name, keep

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
