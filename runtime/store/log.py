"""Logger `rnnc`: one INFO line per compilation and per tuning, of rank 0 only.

The library prints nothing by itself. `logging.basicConfig(level="INFO")` shows the lines.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

LOGGER = logging.getLogger("rnnc")
LOGGER.addHandler(logging.NullHandler())


_LISTENERS: list[Callable[[str], None]] = []


def log(level: int, message: str, *values: object) -> None:
    """Log a message with places for values, unless this process is another rank than 0."""
    if rank() == 0:
        LOGGER.log(level, message, *values, stacklevel=2)
        for listener in _LISTENERS:
            listener(message % values)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Call a function with each message, for any level of the logger."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def rank() -> int:
    """Return the rank by `torch.distributed` if it is imported, or the launcher's, or 0."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    for name in ("RANK", "LOCAL_RANK"):
        with suppress(ValueError, KeyError):
            return int(os.environ[name])
    return 0
