"""What took symbols or a search to find, kept on disk beside the kernels that come of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .cache import cached_file
from .compile import package_digest


def remembered(name: str, made_from: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, from the cache folder where an earlier process has left it there.

    Args:
        name: what the file's name begins with.
        made_from: all that the value depends on, beside this package and its tools.
        make: makes it, of what JSON has; its errors are the caller's.

    Returns:
        The value, as JSON gives it back. What is torn or foreign is made anew, and so is all where
        the folder cannot be written.
    """
    digest = hashlib.sha256(f"{made_from} {package_digest()}".encode()).hexdigest()[:32]
    made: list[Any] = []

    def write(target: Path) -> None:
        made.append(make())
        target.write_text(json.dumps({"made_from": digest, "value": made[0]}))

    with suppress(OSError):
        path = cached_file(f"{name}-{digest}.memo", write)
        with suppress(ValueError, KeyError, TypeError):
            content = json.loads(path.read_text())
            if content["made_from"] == digest:
                return content["value"]
        path.unlink(missing_ok=True)
    return made[0] if made else make()
