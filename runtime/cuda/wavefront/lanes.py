"""Streams of wavefronts on a device, one per layer and one for the products behind each."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import cache
from typing import Any, NamedTuple

import torch

from ....codegen.cuda.wavefront import items
from ...program.ops import Op, Running
from ..driver.capture import beside_captures
from ..driver.device import is_described
from ..driver.partition import Partition
from ..driver.stream_memory import new_stream
from ..driver.streams import new_event, record_event, wait_event


class Lane(NamedTuple):
    """Stream of the device that stays for good; the event marks the end of a call's work on it."""

    handle: int
    stream: Any
    event: int


class Lanes:
    """Streams of a device, used by one call at a time.

    A call forks them, lets each enter before its first use, and joins them. All that has been
    issued ends by itself (`codegen/cuda/wavefront/items.py`), so a call that fails in between joins
    them in the same way.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._layers: dict[Partition, list[Lane]] = defaultdict(list)
        self._products: list[Lane] = []
        self._lock = threading.Lock()
        self._fork = self._last = 0  # events
        self._used = False  # whether there was a wavefront before
        # Of the call that uses the streams.
        self._entered: list[Lane] = []
        self._current = 0

    def of(self, partition: Partition, lanes: set[items.Lane]) -> dict[items.Lane, Lane]:
        """Return the streams of a call, made on first use; layers run on the partition."""
        if is_described(self.device.index):
            return {lane: Lane(number, None, 0) for number, lane in enumerate(sorted(lanes), 1)}
        with self._lock, beside_captures():
            self._fork, self._last = self._fork or new_event(), self._last or new_event()
            found = {}
            for lane in sorted(lanes):
                layer = lane.kind == "layer"
                made = self._layers[partition] if layer else self._products
                while len(made) <= lane.layer:
                    handle = partition.new_stream() if layer else new_stream()
                    made.append(self._new(handle))
                found[lane] = made[lane.layer]
            return found

    def fork(self, current: int) -> None:
        """Give the streams to a call: what enters starts after the current stream's work so far.

        Two wavefronts never run at the same time: each may need the room of the whole device.
        """
        self._lock.acquire()
        try:
            if self._used:
                wait_event(current, self._last)
            record_event(self._fork, current)
            self._current = current
        except BaseException:
            self._lock.release()
            raise

    def enter(self, lane: Lane) -> None:
        """Let a stream start after the fork."""
        wait_event(lane.handle, self._fork)
        self._entered.append(lane)

    def leave(self, lane: Lane) -> None:
        """Let the current stream go on after one that has entered and has all its work."""
        record_event(lane.event, lane.handle)
        wait_event(self._current, lane.event)
        self._entered.remove(lane)

    def join(self) -> None:
        """Let the current stream go on after those that have not left, and other calls begin."""
        try:
            for lane in tuple(self._entered):
                self.leave(lane)
            record_event(self._last, self._current)
            self._used = True
        finally:
            self._entered = []
            self._lock.release()

    def _new(self, handle: int) -> Lane:
        make: Any = torch.cuda.ExternalStream
        return Lane(handle, make(handle, self.device), new_event())


@cache
def lanes_of(index: int) -> Lanes:
    """Return the streams of a device."""
    return Lanes(torch.device("cuda", index))


class _OfLanes(Op):
    """Order between the current stream and those of wavefronts."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes


class Fork(_OfLanes):
    """Fork of the streams from the current one; a run that fails joins them."""

    __slots__ = ()
    order = "fork"
    words = "other streams may start"

    def __call__(self, running: Running) -> None:
        """Fork them."""
        self._lanes.fork(running.stream)
        running.undo.append(self._lanes.join)


class Join(_OfLanes):
    """Join of the streams with the current one."""

    __slots__ = ()
    order = "join"
    words = "go on after all other streams"

    def __call__(self, running: Running) -> None:
        """Join them."""
        running.undo.pop()
        self._lanes.join()


class _OfLane(_OfLanes):
    __slots__ = ("_lane", "lane")

    def __init__(self, lanes: Lanes, lane: Lane) -> None:
        super().__init__(lanes)
        self._lane, self.lane = lane, lane.handle


class Enter(_OfLane):
    """Start of a stream after the fork."""

    __slots__ = ()
    words = "start"

    def __call__(self, running: Running) -> None:
        """Let it start."""
        self._lanes.enter(self._lane)


class Leave(_OfLane):
    """Return of a stream. What it used stays in place until all are joined."""

    __slots__ = ()
    words = "let the caller's stream go on"

    def __call__(self, running: Running) -> None:
        """Let the current stream go on after it."""
        self._lanes.leave(self._lane)
