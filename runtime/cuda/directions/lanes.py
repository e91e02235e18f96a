"""A second stream for the other direction of time of a layer, which runs at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import torch

from ...program.ops import Op, Running
from ...program.recorder import issue
from ...targets.by_torch import NOTHING, Lanes
from ..driver.streams import current_stream, follow

_here = threading.local()


class Split(Op):
    """Start of a second stream after the current one's work; a failed run ends on that one."""

    __slots__ = ("_device",)
    order = "split"
    words = "a second stream starts"

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(self, running: Running) -> None:
        """Start it."""
        device, current = self._device, torch.cuda.current_stream(self._device)
        running.beside = side = _stream_beside(device, current.cuda_stream)
        follow(side.cuda_stream, current.cuda_stream, device.index)

        def undo() -> None:
            _go_on(running, current)
            follow(current.cuda_stream, side.cuda_stream, device.index)

        running.undo.append(undo)


class ChangeStreams(Op):
    """Change to the other one of the two streams, for what follows."""

    __slots__ = ()
    words = "go on with the other stream"

    def __call__(self, running: Running) -> None:
        """Change."""
        other = running.beside
        running.beside = torch.cuda.current_stream(other.device)
        _go_on(running, other)


class Unsplit(Op):
    """End of the second stream: the current one goes on after both."""

    __slots__ = ()
    order = "unsplit"
    words = "go on after both streams"

    def __call__(self, running: Running) -> None:
        """End it."""
        running.undo.pop()
        side, running.beside = running.beside, None
        follow(running.stream, side.cuda_stream, side.device.index)


def _go_on(running: Running, stream: Any) -> None:
    """Let what follows run on a stream."""
    torch.cuda.set_stream(stream)
    running.stream = stream.cuda_stream


def _stream_beside(device: torch.device, stream: int) -> torch.cuda.Stream:
    """Return the stream beside another one of a device, which the thread keeps.

    Each thread has its own: what one thread frees while it uses it, another one must not get.
    """
    streams: dict[Any, torch.cuda.Stream] = _here.__dict__.setdefault("streams", {})
    found = streams.get((device, stream))
    if found is None:
        make: Any = torch.cuda.Stream
        found = streams[device, stream] = make(device)
    return found


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
