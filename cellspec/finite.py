"""`finite`: a number of a caller, checked."""

from __future__ import annotations

import math
import numbers
from typing import Any

from .errors import CellError
from .tracing.place import place_of_caller


def finite(value: Any, what: str, where: str = "") -> float:
    """A finite number as a float.

    Args:
        value: what the caller passed.
        what: what it is, for messages.
        where: its place, for messages; the caller's line where there is none.

    Raises:
        CellError: it is not a finite number.
    """
    exact = as_float(value)
    if not math.isfinite(exact):
        raise CellError(
            f"{value!r} as {what}",
            "a finite number",
            "for example 0.1",
            where=where or place_of_caller(),
        )
    return exact


def as_float(value: Any) -> float:
    """A number as a float; NaN for what is no number, infinity for a whole number beyond floats.

    Args:
        value: what the caller passed.
    """
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
