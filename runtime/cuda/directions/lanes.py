"""Both directions of time of a layer at once: a stream beside the caller's for the second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import torch

from ...program.recorder import recording
from ...targets.lanes import ONE_LANE, Lanes
from ..driver.events import follow
from .again import change_streams_again, split_again, unsplit_again

# Fewer steps take no longer than the host needs for a second stream.
_STEPS_OF_A_LANE = 24


def lanes_for(device: torch.device, steps: int) -> AbstractContextManager[Lanes]:
    """Return the lanes of both directions: one, where a second stream gains too little."""
    return TwoLanes(device) if steps >= _STEPS_OF_A_LANE else ONE_LANE


class TwoLanes:
    """Context in which two parts of a call run at the same time.

    They run after the current stream's work so far, and before its later work. What the second part
    allocates belongs to its own stream. That stream begins each time after all work of the caller's
    stream, so memory that it takes again is no longer in use there.
    """

    __slots__ = ("_current", "_device", "_side")

    def __init__(self, device: torch.device) -> None:
        self._device, self._current = device, torch.cuda.current_stream(device)
        self._side = stream_beside(device, self._current)

    def __enter__(self) -> TwoLanes:
        self._follow(self._side, self._current)
        recorder = recording()
        if recorder is not None:
            split_again(recorder, self._device, stream_beside)
        return self

    def __exit__(self, *_: Any) -> None:
        self._follow(self._current, self._side)
        recorder = recording()
        if recorder is not None:
            unsplit_again(recorder)

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for one of the two parts, 0 or 1."""
        return self._beside() if number else nullcontext()

    def _follow(self, stream: Any, other: Any) -> None:
        follow(stream.cuda_stream, other.cuda_stream, self._device.index)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        recorder = recording()
        if recorder is not None:
            change_streams_again(recorder)
        with torch.cuda.stream(self._side):
            yield
        if recorder is not None:
            change_streams_again(recorder)


def stream_beside(device: torch.device, current: Any) -> Any:
    """Return the stream beside another one of a device, for the calling thread."""
    return _beside(device, current.cuda_stream, threading.get_ident())


@lru_cache(maxsize=64)
def _beside(device: torch.device, stream: int, thread: int) -> torch.cuda.Stream:
    """Return the stream beside another one of a device, for a thread.

    Each thread has its own: what one thread frees while it uses it, another one must not get.
    """
    make: Any = torch.cuda.Stream
    found: torch.cuda.Stream = make(device)
    return found
