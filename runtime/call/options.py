"""Options that have a fixed set of values: words, or True and False."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from torch import Tensor

from ...cellspec.errors import kind_of
from ...errors import TensorError

Word = TypeVar("Word", bound=str | None)


def check_choice(name: str, value: Any, choices: tuple[Word, ...]) -> Word:
    """Return an option that has a fixed set of values; raise a `TensorError` if it has another."""
    if value not in choices:
        raise TensorError(
            name, repr(value), f"one of {', '.join(map(str, choices))}", f"{name}={choices[0]!r}"
        )
    return cast(Word, value)


def check_flag(name: str, value: Any) -> bool:
    """Return an option that is True or False, not a number or a string."""
    if not isinstance(value, bool):
        # A compiler cannot print a tensor.
        found = kind_of(value) if isinstance(value, Tensor) else repr(value)
        raise TensorError(name, found, "True or False", f"{name}=True")
    return value
