"""Use of the stream beside the caller's by a recorded call, done again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...program.entries import Running
from ...program.recorder import Recorder
from ..driver.events import follow

# Gives the stream beside the current one of a device, for the calling thread.
Beside = Callable[[torch.device, Any], Any]


def split_again(recorder: Recorder, device: torch.device, beside: Beside) -> None:
    """Record that a second stream goes on after the current stream's work so far."""

    def split(running: Running) -> None:
        current = torch.cuda.current_stream(device)
        running.beside = side = beside(device, current)
        follow(side.cuda_stream, current.cuda_stream, device.index)

        def undo() -> None:
            _to(running, current)
            follow(current.cuda_stream, side.cuda_stream, device.index)

        running.undo.append(undo)

    recorder.split(split)


def change_streams_again(recorder: Recorder) -> None:
    """Record that what follows runs on the other one of the two streams."""

    def change(running: Running) -> None:
        other = running.beside
        running.beside = torch.cuda.current_stream(other.device)
        _to(running, other)

    recorder.add(change, [])


def unsplit_again(recorder: Recorder) -> None:
    """Record that the current stream goes on after both."""

    def unsplit(running: Running) -> None:
        running.undo.pop()
        side = running.beside
        follow(running.stream, side.cuda_stream, side.device.index)
        running.beside = None

    recorder.unsplit(unsplit)


def _to(running: Running, stream: Any) -> None:
    """Let what follows run on a stream."""
    torch.cuda.set_stream(stream)
    running.stream = stream.cuda_stream
