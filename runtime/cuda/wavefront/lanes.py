"""The streams of wavefronts on a device: one per layer, and one for the products before each."""

from __future__ import annotations

import gc
import threading
from functools import cache
from typing import Any, NamedTuple

import torch

from ..driver.capture import beside_captures
from ..driver.stream_memory import new_stream

# Lanes per product. A chunk waits, is launched and is handed over while another is multiplied.
WAYS = 2
# In each byte of a counter it is more than any counter reaches.
_LETS_GO_ON = 0x40


class Lane(NamedTuple):
    """A stream of the device that stays for good.

    Attributes:
        handle: the driver's.
        stream: as torch has it.
    """

    handle: int
    stream: Any


class Lanes:
    """The streams of a device, used by one call at a time.

    Layers and products have streams of different priority: streams of one priority may share a
    queue of the device, in which a product would wait for a layer that waits for it.

    A call forks them, launches, says so and joins them; or it gives up.

    Attributes:
        device: the device.
        layers: the layers' streams.
        products: the products' lanes: one for the kernel that keeps multiprocessors free, and for
            each product `WAYS`, which take its chunks in turn.
        warm: what has run on the device once, with all kernels loaded.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.layers: list[Lane] = []
        self.products: list[Lane] = []
        self.warm: set[object] = set()
        self._lock = threading.Lock()
        self._events: list[int] = []
        self._fork = self._last = 0  # events
        self._used = False  # whether there was a wavefront before
        # Of the call that uses the streams.
        self._forked: list[int] = []
        self._current, self._launching, self._collects = 0, False, False

    def fork(self, layers: int, products: int, current: int) -> None:
        """Give a number of streams to a call: they start after the current stream's work so far.

        Two wavefronts never run at the same time: each may need the room of the whole device.
        Until all is launched, no garbage is collected: that may wait for the device, and a layer
        for this thread.

        Args:
            layers: how many streams of layers.
            products: how many lanes of products.
            current: the handle of the current stream, of the current device.
        """
        from cupy_backends.cuda.api import runtime

        self._lock.acquire()
        try:
            self._make(layers, products)
            if self._used:
                runtime.streamWaitEvent(current, self._last)
            runtime.eventRecord(self._fork, current)
            used = [*self.layers[:layers], *self.products[:products]]
            self._forked, self._current = [lane.handle for lane in used], current
            for handle in self._forked:
                runtime.streamWaitEvent(handle, self._fork)
            self._launching, self._collects = True, gc.isenabled()
            gc.disable()
        except BaseException:
            self._lock.release()
            raise

    def launched(self) -> None:
        """Say that the streams have all their work."""
        if self._launching and self._collects:
            gc.enable()
        self._launching = False

    def join(self) -> None:
        """Let the current stream go on after the others, and other calls use them."""
        from cupy_backends.cuda.api import runtime

        try:
            for event, handle in zip(self._events, self._forked, strict=False):
                runtime.eventRecord(event, handle)
                runtime.streamWaitEvent(self._current, event)
            runtime.eventRecord(self._last, self._current)
            self._used = True
        finally:
            self._lock.release()

    def give_up(self, counters: int, size: int) -> None:
        """Join the streams although some of the work may not have been launched.

        Args:
            counters: the address of the numbers that it waits for.
            size: bytes of them.
        """
        from cupy_backends.cuda.api import runtime

        try:
            if self._launching:
                runtime.memsetAsync(counters, _LETS_GO_ON, size, self._current)
        finally:
            self.launched()
            self.join()

    def _make(self, layers: int, products: int) -> None:
        """Make the streams and events that a call needs, if there are fewer."""
        if len(self.layers) >= layers and len(self.products) >= products:
            return
        count = max(len(self.layers), layers) + max(len(self.products), products)
        with beside_captures():
            self._fork, self._last = self._fork or _event(), self._last or _event()
            while len(self._events) < count:
                self._events.append(_event())
            while len(self.layers) < layers:
                self.layers.append(self._new(urgent=False))
            while len(self.products) < products:
                self.products.append(self._new(urgent=True))

    def _new(self, urgent: bool) -> Lane:
        make: Any = torch.cuda.ExternalStream
        handle = new_stream(urgent)
        return Lane(handle, make(handle, self.device))


def _event() -> int:
    """A new event of the current device, for good; gives its handle."""
    from cupy_backends.cuda.api import runtime

    return int(runtime.eventCreateWithFlags(runtime.eventDisableTiming))


@cache
def lanes_of(index: int) -> Lanes:
    """The streams of a device.

    Args:
        index: the device's number.
    """
    return Lanes(torch.device("cuda", index))
