"""Both directions of time of a layer at once: a stream beside the caller's for the second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import torch

from ...program.ops import Running
from ...program.recorder import issue
from ...targets.lanes import NOTHING, Lanes
from ..driver.streams import current_stream
from .ops import ChangeStreams, Split, Unsplit

# Fewer steps take no longer than the host needs for a second stream.
STEPS_OF_A_LANE = 24


class TwoLanes(Lanes):
    """Context in which two parts of a call run at the same time.

    They run after the current stream's work so far, and before its later work. What the second part
    allocates belongs to its own stream. That stream begins each time after all work of the caller's
    stream, so memory that it takes again is no longer in use there.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._running = Running(current_stream(device.index))

    def __enter__(self) -> Self:
        issue(Split(self._device), self._running)
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            issue(Unsplit(), self._running)
        else:
            self._running.give_up()

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for one of the two parts, 0 or 1."""
        return self._beside() if number else NOTHING

    @contextmanager
    def _beside(self) -> Iterator[None]:
        issue(ChangeStreams(), self._running)
        yield
        issue(ChangeStreams(), self._running)
