"""Issue of a wavefront's layers and the products between them, in the order of a schedule."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....codegen.cuda.wavefront import items
from ....codegen.cuda.wavefront.groups import storing_warps
from ....codegen.cuda.wavefront.items import Counter, Item, items_of
from ...call.layer_call import wavefront_error
from ...program.ops import Op, Running
from ...program.recorder import issue, recording
from ..arguments import with_handover
from ..driver.partition import Partition
from ..driver.stream_memory import HandOver, Number
from ..driver.streams import current_stream
from ..launch import fill_bytes
from ..load import load_kernel
from ..prepared import Prepared
from ..together import Together
from ..watchdog import between_layers
from .lanes import Enter, Fork, Join, Lane, Lanes, Leave, lanes_of
from .products import Between, Chunks

_BYTES = 4  # of a counter


class Counters:
    """Counters of a call, all zero at first. Layers count in the order of computation."""

    def __init__(self, layers: int, chunks: int, device: torch.device) -> None:
        self._layers, self._chunks = layers, chunks
        self.tensor = torch.empty(layers + 2 * layers * chunks, dtype=torch.int32, device=device)
        fill_bytes(self.tensor, 0)
        self._first = self.tensor.data_ptr()

    def address(self, counter: Counter) -> int:
        """Return the address of a counter of the schedule."""
        kind, layer, chunk = counter
        if kind == "started":
            return self._first + _BYTES * layer
        row = layer if kind == "done" else self._layers + layer
        return self._first + _BYTES * (self._layers + row * self._chunks + chunk)


class LaterLaunch:
    """Stand-in for a launcher's `run`: keeps the arguments, and the tensors that they point to."""

    arguments: Any
    kept: tuple[Tensor | None, ...]

    def __call__(
        self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int
    ) -> None:
        """Keep what the launch is given."""
        self.arguments, self.kept = arguments, (R, like)


class Layers(NamedTuple):
    """Layers of a wavefront, numbered as in the module, and the products between them."""

    ready: Prepared
    numbers: Sequence[int]
    launches: Sequence[LaterLaunch]
    products: Sequence[Between]
    chunks: Chunks


def run_group(
    layers: Layers,
    partition: Partition,
    meanwhile: Callable[[], None] | None = None,
    ended: Callable[[int], None] | None = None,
) -> None:
    """Run layers at the same time, after the current stream's work so far and before later work.

    The layers run on the partition, and `meanwhile` launches other work on the current stream,
    which runs beside them. `ended` launches work behind a layer and its products, by its place in
    the order of computation; it runs beside the next layers.
    """
    if not all(product.bounded for product in layers.products):
        what = f"{layers.ready.plan.direction} of {layers.ready.cell.name}"
        raise wavefront_error(what, "products that may need more room than layers leave them")
    lanes, count = lanes_of(layers.ready.device), len(layers.launches)
    schedule = items_of(count, layers.chunks.indices, len(layers.products) == count)
    running = Running(current_stream(layers.ready.device))
    found = lanes.of(partition, {item.lane for item in schedule})
    group = _Group(layers, lanes, found, running)
    try:
        group.do(Fork(lanes))
        for lane, together in groupby(schedule, attrgetter("lane")):
            group.issue(lane, together)
        recorder = recording()
        if recorder is not None:
            recorder.launched()
        if meanwhile:
            meanwhile()
        if ended:
            for place in range(count):
                group.leave(place)
                ended(place)
        group.do(Join(lanes))
    except BaseException:
        running.give_up()
        raise


class _Group:
    """Layers that run at the same time; `found` has the stream of each lane of the schedule."""

    def __init__(
        self, layers: Layers, lanes: Lanes, found: dict[items.Lane, Lane], running: Running
    ) -> None:
        self._layers, self._lanes, self._found, self._running = layers, lanes, found, running
        ready, chunks = layers.ready, layers.chunks
        plan: Any = ready.plan
        self._kernel = load_kernel(ready.cell, plan, f"rnnc_{plan.direction}", ready.device)
        self._grid = plan.grid(ready.sizes.heads, plan.batch_tiles(ready.sizes.batch))
        self._counters = Counters(len(layers.launches), len(chunks.indices), lanes.device)
        blocks = math.prod(self._grid)
        # What a counter is when all that writes it has.
        self._full = {"started": blocks, "done": blocks * storing_warps(plan), "ready": 1}
        self._entered: set[int] = set()

    def do(self, op: Op) -> None:
        """Do an operation, in the order of the caller's stream."""
        issue(op, self._running)

    def issue(self, to: items.Lane, together: Iterable[Item]) -> None:
        """Issue items of the schedule that follow each other on a lane."""
        lane, recorder = self._found[to], recording()
        if lane.handle not in self._entered:
            self.do(Enter(self._lanes, lane))
            self._entered.add(lane.handle)
        one: AbstractContextManager[None] = nullcontext()
        if recorder is not None and to.kind == "product":
            one = recorder.as_one(partial(Together, lane.handle))
        with one:
            for item in together:
                self._issue(item, lane)

    def _issue(self, item: Item, lane: Lane) -> None:
        """Issue an item of the schedule to its stream."""
        if item.kind == "handover":
            writes, waits = self._numbers(item.signals), self._numbers(item.waits)
            self.do(HandOver(lane.handle, writes, waits))
        elif item.kind == "product":
            self._layers.products[item.lane.layer].multiply(item.chunk, lane)
        else:
            self._launch(item.lane.layer, lane)

    def leave(self, place: int) -> None:
        """Let the current stream go on after a layer, by its place, and the products behind it."""
        for lane in (items.Lane("layer", place), items.Lane("product", place)):
            if lane in self._found:
                self.do(Leave(self._lanes, self._found[lane]))

    def _numbers(self, counters: Sequence[Counter]) -> list[Number]:
        """Return the counters in memory, with their values once all writes to them are done."""
        return [Number(self._counters.address(c), self._full[c.kind]) for c in counters]

    def _launch(self, place: int, lane: Lane) -> None:
        """Launch the kernel of a layer."""
        layers, address = self._layers, self._counters.address
        arguments: Any = layers.launches[place].arguments
        arguments.watchdog = between_layers(arguments.watchdog)
        handed = with_handover(
            arguments,
            address(Counter("ready", place)) if place else None,  # the first waits for none
            address(Counter("done", place)) if place < len(layers.products) else None,
            address(Counter("started", place)),
            layers.chunks.size,
            layers.numbers[place],
        )
        self._kernel(self._grid, handed, lane.handle)
