"""What runs the directions of a layer where they do not run at once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


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
