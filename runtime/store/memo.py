"""What took symbols or a search to find, kept on disk beside the kernels that come of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from .digest import package_digest
from .files import cached, file_name


def remembered(name: str, made_from: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, from the cache folder where an earlier process has left it there.

    Args:
        name: what the file's name begins with.
        made_from: all that the value depends on, beside this package and its tools.
        make: makes it, of what JSON has; its errors are the caller's.

    Returns:
        The value, as JSON gives it back.
    """
    digest = hashlib.sha256(f"{made_from} {package_digest()}".encode()).hexdigest()[:32]
    found = cached(file_name(name, digest, "memo"), lambda: json.dumps(make()).encode())
    return json.loads(found.content)
