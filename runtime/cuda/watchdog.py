"""Time that a block of a kernel waits for another block's data before it ends the launch."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from functools import cache

import torch
import torch.distributed as dist

from ...errors import SettingError

VARIABLE = "RNNC_WATCHDOG_SECONDS"
_DEFAULT = "2"
_LATER = 60.0  # seconds after torch's own time-out of a collective
_LONGEST = 1800.0  # seconds: torch's longest default time-out
_FOREIGN_WORK = 300 * 10**9  # ns: kFirstDataBound of watchdog.cuh
_MOST = 10**9  # seconds: its nanoseconds are a 64-bit number


@cache
def watchdog_bound() -> int:
    """Return the bound in nanoseconds that `RNNC_WATCHDOG_SECONDS` sets; 0 for none.

    The variable is read once a process. Where it is not set and the process is one of several, the
    bound is longer than torch's time-out of a collective: a kernel of NCCL that waits for a late
    rank may hold multiprocessors, and that wait ends with torch's error.
    """
    text = _asked() or _default()
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MOST:
        raise SettingError(
            VARIABLE,
            repr(text),
            f"a number of seconds from 0 (no watchdog) to {_MOST}",
            f"{VARIABLE}={_DEFAULT}",
        )
    # A positive bound stays one: 0 would turn the watchdog off.
    return max(round(seconds * 1e9), 1) if seconds else 0


def between_layers(bound: int) -> int:
    """Return the bound in ns of a layer that waits for the one before it; 0 for none.

    A product between them may have no multiprocessor yet, because other work holds it. Where the
    caller sets no bound, that wait is as long as the one for the first data of a block of a grid.
    """
    return bound if _asked() else max(bound, _FOREIGN_WORK)


def _asked() -> str:
    """Return the text of the variable; empty if it is not set."""
    return os.environ.get("RNNC_WATCHDOG_SECONDS", "").strip()


def _default() -> str:
    """Return the seconds without the variable, as text."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return _DEFAULT
    seconds = _LONGEST
    with suppress(Exception):  # no public function tells the time-out of a group
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda"))
        seconds = backend.options._timeout.total_seconds()
    return str(seconds + _LATER)
