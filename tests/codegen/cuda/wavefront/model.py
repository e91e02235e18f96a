"""A small model of a GPU that runs every order in which it may take what was issued to streams.

Streams share hardware queues, each of which is first in, first out. The head of a queue that waits
for a counter holds back all that lies behind it. A kernel of a layer takes its room when it starts,
reads and writes chunks in order, and frees the room at its end; a product needs room for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rnnc.codegen.cuda.wavefront.items import Counter, Item, Lane


class Device(NamedTuple):
    """The hardware of the model.

    Attributes:
        queues: hardware queues; lanes are dealt out to them in the order of first use.
        layers: kernels of layers that fit the part of the GPU that layers may use.
        shared: whether products must find room in that part too, in place of a layer.
        held: multiprocessors of that part, in layers, that other work may take for a while.
    """

    queues: int
    layers: int
    shared: bool = False
    held: int = 0


class State(NamedTuple):
    """The state of the model at a moment.

    Attributes:
        taken: items that each queue has taken.
        running: the layers that run, and how many chunks each has stored.
        written: the counters that are full.
        held: whether other work still holds its part of the room.
    """

    taken: tuple[int, ...]
    running: frozenset[tuple[int, int]]
    written: frozenset[Counter]
    held: bool


def stuck(items: Sequence[Item], device: Device) -> State | None:
    """Return a moment from which the device never ends what was issued; None if there is none.

    Args:
        items: what was issued; all of the host's work that there will be.
        device: runs it.
    """
    queues = _queues(items, device.queues)
    first = State((0,) * len(queues), frozenset(), frozenset(), device.held > 0)
    seen, left = {first}, [first]
    while left:
        state = left.pop()
        found = list(_next(state, queues, device))
        over = all(n == len(q) for n, q in zip(state.taken, queues, strict=True))
        if not found and not (over and not state.running):
            return state
        for each in found:
            if each not in seen:
                seen.add(each)
                left.append(each)
    return None


def _queues(items: Sequence[Item], count: int) -> list[list[Item]]:
    """The items of each queue."""
    lanes: dict[Lane, int] = {}
    found: list[list[Item]] = [[] for _ in range(count)]
    for item in items:
        found[lanes.setdefault(item.lane, len(lanes) % count)].append(item)
    return [queue for queue in found if queue]


def _next(state: State, queues: list[list[Item]], device: Device) -> Iterator[State]:
    """All that the device may do next."""
    taken, running, written, held = state
    room = device.layers - len(running) - (device.held if held else 0)
    if held:
        yield state._replace(held=False)  # other work ends by itself
    for number, queue in enumerate(queues):
        if taken[number] == len(queue):
            continue
        item = queue[taken[number]]
        # A stream goes on behind the kernel of a layer only when that has ended.
        if any(layer == item.lane.layer for layer, _ in running) and item.lane.kind == "layer":
            continue
        after = state._replace(taken=_with(taken, number))
        if item.kind == "handover":
            after = after._replace(written=written | set(item.signals))
            if all(counter in after.written for counter in item.waits):
                yield after
        elif item.kind == "product":
            if room > 0 or not device.shared:
                yield after
        elif room > 0:
            begun = Counter("started", item.lane.layer)
            layer = frozenset({(item.lane.layer, 0)})
            yield after._replace(running=running | layer, written=written | {begun})
    for layer, chunk in running:
        (item,) = (i for q in queues for i in q if i.kind == "layer" and i.lane.layer == layer)
        reads = item.spins
        stores = item.signals[1:]
        chunks = max(len(reads), len(stores))
        others = running - {(layer, chunk)}
        if chunk == chunks:
            yield state._replace(running=others)
        # A layer loads the next chunk ahead, before it stores the one before.
        elif all(counter in written for counter in reads[: chunk + 2]):
            full = written | set(stores[chunk : chunk + 1])
            yield state._replace(running=others | {(layer, chunk + 1)}, written=full)


def _with(taken: tuple[int, ...], number: int) -> tuple[int, ...]:
    return (*taken[:number], taken[number] + 1, *taken[number + 1 :])
