"""Operations of programs on the stream beside the caller's."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import torch

from ...program.ops import Name, Op, Running
from ..driver.events import follow


class Split(Op):
    """Start of a second stream after the current one's work; a failed run ends on that one."""

    __slots__ = ("_device",)
    order = "split"

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def text(self, name: Name) -> str:
        """Return it in words."""
        return "a second stream starts"

    def __call__(self, running: Running) -> None:
        """Start it."""
        device, current = self._device, torch.cuda.current_stream(self._device)
        running.beside = side = _stream_beside(device, current.cuda_stream, threading.get_ident())
        follow(side.cuda_stream, current.cuda_stream, device.index)

        def undo() -> None:
            _go_on(running, current)
            follow(current.cuda_stream, side.cuda_stream, device.index)

        running.undo.append(undo)


class ChangeStreams(Op):
    """Change to the other one of the two streams, for what follows."""

    __slots__ = ()

    def text(self, name: Name) -> str:
        """Return it in words."""
        return "go on with the other stream"

    def __call__(self, running: Running) -> None:
        """Change."""
        other = running.beside
        running.beside = torch.cuda.current_stream(other.device)
        _go_on(running, other)


class Unsplit(Op):
    """End of the second stream: the current one goes on after both."""

    __slots__ = ()
    order = "unsplit"

    def text(self, name: Name) -> str:
        """Return it in words."""
        return "go on after both streams"

    def __call__(self, running: Running) -> None:
        """End it."""
        running.undo.pop()
        side, running.beside = running.beside, None
        follow(running.stream, side.cuda_stream, side.device.index)


def _go_on(running: Running, stream: Any) -> None:
    """Let what follows run on a stream."""
    torch.cuda.set_stream(stream)
    running.stream = stream.cuda_stream


@lru_cache(maxsize=64)
def _stream_beside(device: torch.device, stream: int, thread: int) -> torch.cuda.Stream:
    """Return the stream beside another one of a device, for a thread.

    Each thread has its own: what one thread frees while it uses it, another one must not get.
    """
    make: Any = torch.cuda.Stream
    found: torch.cuda.Stream = make(device)
    return found
