"""Lanes for the directions of a layer: one for each, or one for all."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self


class Lanes:
    """Lanes for the directions of a layer, as a context: one for all, which run one by one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """End the lanes."""

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for a direction; what it launches may run beside the other's."""
        return NOTHING


NOTHING, ONE_LANE = nullcontext(), Lanes()
