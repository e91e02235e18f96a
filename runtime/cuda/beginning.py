"""Memory that kernels of a captured step find filled: a graph fills it when it begins."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from .launch import fill_bytes


class _Beginning(NamedTuple):
    """Stream of a capture that waits for nothing in it, and what was filled there."""

    stream: torch.cuda.Stream
    filled: list[Tensor]


_here = threading.local()


@contextmanager
def beginning_on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Let `new_filled` fill on a stream that forks from torch's current one, which captures, here.

    The current stream waits for it in the end. What was filled lives as long as the context:
    memory that is freed early would be filled again while kernels of the capture use it.
    """
    current = torch.cuda.current_stream()
    stream.wait_stream(current)
    _here.beginning = _Beginning(stream, [])
    try:
        yield
    finally:
        _here.beginning = None
    current.wait_stream(stream)


def new_filled(like: Tensor, size: int, byte: int) -> Tensor:
    """Return new bytes on the device of a tensor, all with one value, on torch's current stream.

    In a graph that `beginning_on` captures, they are filled beside all that comes before.
    """
    beginning: _Beginning | None = getattr(_here, "beginning", None)
    if beginning is None:
        return _filled(like, size, byte)
    stream, kept = beginning
    with torch.cuda.stream(stream):
        kept.append(_filled(like, size, byte))
    torch.cuda.current_stream().wait_stream(stream)
    return kept[-1]


def _filled(like: Tensor, size: int, byte: int) -> Tensor:
    to = like.new_empty(size, dtype=torch.uint8)
    fill_bytes(to, byte)
    return to
