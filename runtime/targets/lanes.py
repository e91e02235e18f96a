"""Lanes for the directions of a layer: one for each, or one for all."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Lanes(Protocol):
    """Lanes for two directions of time, one for each."""

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for a direction; what it launches runs beside the other's."""


class OneLane:
    """Lane for all directions of a layer, which run one after the other."""

    def __enter__(self) -> OneLane:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for what one direction does."""
        return NOTHING


NOTHING, ONE_LANE = nullcontext(), OneLane()
