"""Options that have a fixed set of values."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from ...errors import TensorError

Word = TypeVar("Word", bound=str | None)


def check_choice(name: str, value: Any, choices: tuple[Word, ...]) -> Word:
    """Return an option that has a fixed set of values; raise a `TensorError` if it has another."""
    if value not in choices:
        raise TensorError(
            name, repr(value), f"one of {', '.join(map(str, choices))}", f"{name}={choices[0]!r}"
        )
    return cast(Word, value)
