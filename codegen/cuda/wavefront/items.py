"""The schedule of a wavefront: what is issued, in which order, on which stream, and who waits.

Three kinds of items are issued: the kernel of a layer, the product of a chunk behind a layer, and a
handover, which writes counters in device memory and then holds its stream back until others are
reached. The order is a layer, all products behind it, the next layer, and so on. So each wait names
a counter that something issued before it writes: whatever has been issued ends by itself, on any
number of hardware queues, even if the host issues nothing more. `check_order` says so of a given
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple


class Counter(NamedTuple):
    """A counter in device memory. Layers count in the order of computation, from 0.

    Attributes:
        kind: "started" counts blocks of a layer that run, "done" counts warps that have stored a
            chunk of a layer, and "ready" says that a layer may read a chunk.
        layer: whose.
        chunk: which; 0 for "started".
    """

    kind: Literal["started", "done", "ready"]
    layer: int
    chunk: int = 0


class Lane(NamedTuple):
    """A stream of a wavefront.

    Attributes:
        kind: "layer" for the stream of a layer, which belongs to a partition; "product" for that of
            the products behind a layer.
        layer: which layer.
    """

    kind: Literal["layer", "product"]
    layer: int


class Item(NamedTuple):
    """A kernel, a product or a handover that is issued to a stream.

    Attributes:
        kind: what it is.
        lane: the stream that it is issued on.
        chunk: of a product.
        signals: counters that it writes; a handover writes them first.
        waits: counters that a handover waits for before its stream goes on.
        spins: counters that a running kernel waits for, while it holds its multiprocessors.
    """

    kind: Literal["layer", "product", "handover"]
    lane: Lane
    chunk: int = 0
    signals: tuple[Counter, ...] = ()
    waits: tuple[Counter, ...] = ()
    spins: tuple[Counter, ...] = ()


class OrderError(AssertionError):
    """An item waits for something that is issued later, or never."""


@lru_cache(maxsize=64)
def items_of(layers: int, chunks: Sequence[int], followed: bool) -> tuple[Item, ...]:
    """Return the items of a wavefront in the order of issue.

    Args:
        layers: that run at the same time.
        chunks: their numbers, in the order of computation.
        followed: whether a product follows the last layer.

    Example:
        >>> from rnnc.codegen.cuda.wavefront.items import items_of
        >>> [item.kind for item in items_of(2, range(1), False)]
        ['layer', 'handover', 'product', 'handover', 'handover', 'layer']
    """
    items: list[Item] = []
    for layer in range(layers):
        lane = Lane("layer", layer)
        if layer:
            # The first layer that is not over has all its blocks on the device.
            items.append(Item("handover", lane, waits=(Counter("started", layer - 1),)))
        behind = followed or layer + 1 < layers
        stores = [Counter("done", layer, chunk) for chunk in chunks if behind]
        reads = tuple(Counter("ready", layer, chunk) for chunk in chunks if layer)
        items.append(Item("layer", lane, 0, (Counter("started", layer), *stores), spins=reads))
        if behind:
            items += _products_behind(layer, chunks, last=layer + 1 == layers)
    return tuple(items)


def _products_behind(layer: int, chunks: Sequence[int], last: bool) -> list[Item]:
    """Return the products behind a layer, and the handovers around them.

    Args:
        layer: the layer.
        chunks: as in `items_of`.
        last: whether no layer of the wavefront reads the results.
    """
    lane, items = Lane("product", layer), list[Item]()
    written: tuple[Counter, ...] = ()
    for chunk in chunks:
        stored = Counter("done", layer, chunk)
        items.append(Item("handover", lane, signals=written, waits=(stored,)))
        items.append(Item("product", lane, chunk))
        written = () if last else (Counter("ready", layer + 1, chunk),)
    if written:
        items.append(Item("handover", lane, signals=written))
    return items


def check_order(items: Sequence[Item]) -> None:
    """Check that each wait names a counter that something issued before writes.

    Then every prefix of the items ends by itself. By induction over the prefix: its last item waits
    for counters of items before it, which end, or write them, without it.

    Args:
        items: in the order of issue.

    Raises:
        OrderError: one waits for something that is issued later, or never.
    """
    written: set[Counter] = set()
    for place, item in enumerate(items):
        if item.kind == "handover":
            written.update(item.signals)
        for counter in (*item.waits, *item.spins):
            if counter not in written:
                raise OrderError(f"item {place}, {item}, waits for {counter} of no earlier item")
        written.update(item.signals)
