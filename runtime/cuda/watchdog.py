"""How long a block of a kernel waits for another block's data before it ends the launch."""

from __future__ import annotations

import math
import os
from functools import cache

from ..errors import SettingError

VARIABLE = "RNNC_WATCHDOG_SECONDS"
_DEFAULT = "2"
_MOST = 10**9  # seconds: its nanoseconds are a 64-bit number


@cache
def watchdog_bound() -> int:
    """The bound in nanoseconds that `RNNC_WATCHDOG_SECONDS` sets; 0 for none.

    The variable is read once a process.

    Raises:
        SettingError: the variable is no number of seconds.
    """
    text = os.environ.get("RNNC_WATCHDOG_SECONDS", "").strip() or _DEFAULT
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
