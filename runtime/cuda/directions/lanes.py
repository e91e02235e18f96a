"""Both directions of time of a layer at once: a stream beside the caller's for the second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import torch

from ...program.recorder import recording
from ..driver.events import follow
from .again import change_streams_again, split_again, unsplit_again


class TwoLanes:
    """A context in which two parts of a call run at the same time: after the current stream's work
    so far, and before its later work.

    What the second part allocates belongs to its own stream. That stream begins each time after all
    work of the caller's stream, so memory that it takes again is no longer in use there.

    Args:
        device: of the call.
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
        """A context for one of the two parts.

        Args:
            number: 0 or 1.
        """
        return self._beside() if number else nullcontext()

    def _follow(self, stream: Any, other: Any) -> None:
        """Hold a stream back until another one has done what it was given before."""
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
    """The stream beside another one of a device, for the calling thread.

    Args:
        device: the device.
        current: the other one.
    """
    return _beside(device, current.cuda_stream, threading.get_ident())


@lru_cache(maxsize=64)
def _beside(device: torch.device, stream: int, thread: int) -> torch.cuda.Stream:
    """The stream beside another one of a device.

    Each thread has its own: what one thread frees while it uses it, another one must not get.

    Args:
        device: the device.
        stream: the handle of the other one.
        thread: its number.
    """
    make: Any = torch.cuda.Stream
    found: torch.cuda.Stream = make(device)
    return found
