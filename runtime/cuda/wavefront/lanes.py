"""The streams of wavefronts on a device: one per layer, and one for the products before each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch

from ..driver.capture import beside_captures
from ..driver.cublas import Blas, new_blas
from ..driver.stream_memory import new_stream

# Lanes per product. A chunk waits, is launched and is handed over while another is multiplied.
WAYS = 2


class Lane(NamedTuple):
    """Where products run.

    Attributes:
        stream: as torch has it.
        handle: the driver's, of the stream.
        blas: a handle of cuBLAS, for this lane.
    """

    stream: Any
    handle: int
    blas: Blas


class Lanes:
    """The streams of a device, used by one call at a time.

    Layers and products have streams of different priority: streams of one priority may share a
    queue of the device, in which a product would wait for a layer that waits for it.

    Attributes:
        device: the device.
        layers: the layers' streams.
        products: the products' lanes: one for the kernel that keeps multiprocessors free, and for
            each product `WAYS`, which take its chunks in turn.
        warm: what has run on the device once, with all kernels loaded.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.layers: list[torch.cuda.ExternalStream] = []
        self.products: list[Lane] = []
        self.warm: set[object] = set()
        self._lock = threading.Lock()
        self._events: list[Any] = []
        self._fork, self._last = _event(), _event()
        self._used = False

    @contextmanager
    def forked(self, layers: int, products: int) -> Iterator[None]:
        """Give a number of streams to a call: they start after the current stream's work so far,
        and the current stream goes on after theirs.

        Two wavefronts never run at the same time: each may need the room of the whole device.

        Args:
            layers: how many streams of layers.
            products: how many lanes of products.
        """
        with self._lock:
            with beside_captures():
                while len(self.layers) < layers:
                    self.layers.append(self._new(urgent=False))
                while len(self.products) < products:
                    stream = self._new(urgent=True)
                    self.products.append(Lane(stream, stream.cuda_stream, new_blas()))
                while len(self._events) < layers + products:
                    self._events.append(_event())
            current = torch.cuda.current_stream(self.device)
            if self._used:
                current.wait_event(self._last)
            self._fork.record(current)
            used = self.layers[:layers] + [lane.stream for lane in self.products[:products]]
            for stream in used:
                stream.wait_event(self._fork)
            try:
                yield
            finally:
                for stream, event in zip(used, self._events, strict=False):
                    event.record(stream)
                    current.wait_event(event)
                self._last.record(current)
                self._used = True

    def _new(self, urgent: bool) -> torch.cuda.ExternalStream:
        make: Any = torch.cuda.ExternalStream
        stream: torch.cuda.ExternalStream = make(new_stream(urgent), self.device)
        return stream


def _event() -> Any:
    make: Any = torch.cuda.Event
    return make()


@cache
def lanes_of(index: int) -> Lanes:
    """The streams of a device.

    Args:
        index: the device's number.
    """
    return Lanes(torch.device("cuda", index))
