"""What runs the directions of a layer: each in a lane of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Lanes(Protocol):
    """Gives each of two directions of time a lane of its own."""

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """A context for a direction; what it launches runs beside the other's."""


class OneLane:
    """Runs the directions of a layer one after the other."""

    def __enter__(self) -> OneLane:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """A context for what one direction does."""
        return NOTHING


NOTHING, ONE_LANE = nullcontext(), OneLane()
