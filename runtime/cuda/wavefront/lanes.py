"""The streams of wavefronts on a device: one per layer, and one for the products before each."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch

from ..driver.capture import beside_captures
from ..driver.cublas import Blas, new_blas
from ..driver.stream_memory import new_stream, wait_until


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
        products: the products' lanes.
        warm: what has run on the device once, with all kernels loaded.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.layers: list[torch.cuda.ExternalStream] = []
        self.products: list[Lane] = []
        self.warm: set[object] = set()
        self._lock = threading.Lock()
        # A number in pinned memory, which the host writes without the driver.
        self._number = 0
        self._gate: Any = None
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

    def hold(self, stream: int) -> None:
        """Hold a stream of a call back until `go`.

        Args:
            stream: the handle.
        """
        if self._gate is None:
            self._gate = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._number += 1
        wait_until(stream, self._gate.data_ptr(), self._number)

    def go(self) -> None:
        """Let the call begin whose stream is held back."""
        if self._gate is not None:
            ctypes.c_int32.from_address(self._gate.data_ptr()).value = self._number

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
