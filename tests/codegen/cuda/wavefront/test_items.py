"""The schedule of a wavefront: no order, number of queues or pause of the host makes it hang."""

from __future__ import annotations

from itertools import chain

import pytest
from rnnc.codegen.cuda.wavefront.items import Counter, Item, Lane, OrderError, check_order, items_of

CHUNKS = 3
QUEUES = (1, 2, 8, 32)


def all_layers_first(layers, chunks):
    """The order that once hung: all layers, then products by diagonals."""
    items = items_of(layers, chunks, False)
    kernels = [item for item in items if item.lane.kind == "layer"]
    behind = [list(products(items, layer)) for layer in range(layers - 1)]
    diagonals = [
        behind[layer][number - layer]
        for number in range(len(behind) + len(chunks) - 1)
        for layer in range(len(behind))
        if 0 <= number - layer < len(chunks)
    ]
    return [*kernels, *chain.from_iterable(diagonals)]


def products(items, layer):
    """The items around each product behind a layer: a wait, the product, a write."""
    for item in items:
        if item.kind == "product" and item.lane.layer == layer:
            wait = Item("handover", item.lane, waits=(Counter("done", layer, item.chunk),))
            write = Item("handover", item.lane, signals=(Counter("ready", layer + 1, item.chunk),))
            yield wait, item, write


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("chunks", [range(1), range(4), range(63, -1, -1)], ids=len)
@pytest.mark.parametrize("layers", range(2, 13))
def test_each_wait_names_what_was_issued_before(layers, chunks, followed):
    items = items_of(layers, chunks, followed)
    check_order(items)
    kinds = [item.kind for item in items]
    behind = layers if followed else layers - 1
    assert kinds.count("layer") == layers
    assert kinds.count("product") == behind * len(chunks)
    assert kinds.count("handover") == layers - 1 + behind * len(chunks) + (layers - 1)
    for layer in range(behind):
        own = [item.chunk for item in items if item[:2] == ("product", Lane("product", layer))]
        assert own == list(chunks)


@pytest.mark.parametrize("queues", QUEUES)
@pytest.mark.parametrize("layers", [2, 3, 4])
def test_every_prefix_ends_on_any_number_of_queues(model, layers, queues):
    items = items_of(layers, range(CHUNKS), False)
    for count in range(len(items) + 1):
        assert model.stuck(items[:count], model.Device(queues, layers)) is None


@pytest.mark.parametrize("held", [1, 2])
def test_other_work_in_the_room_of_layers_delays_them_only(model, held):
    items = items_of(3, range(CHUNKS), False)
    for queues in QUEUES:
        assert model.stuck(items, model.Device(queues, 3, held=held)) is None


@pytest.mark.parametrize("queues", QUEUES)
def test_the_model_finds_that_the_old_order_hangs_when_the_host_pauses(model, queues):
    items = all_layers_first(3, range(CHUNKS))
    with pytest.raises(OrderError, match="of no earlier item"):
        check_order(items)
    device = model.Device(queues, 3)
    prefixes = [model.stuck(items[:count], device) for count in range(len(items) + 1)]
    assert any(prefixes)
    assert prefixes[-1] is None  # once all of it is issued, and while products have room


def test_the_model_finds_that_layers_may_take_the_room_of_products(model):
    """Where layers may take all room, no order helps."""
    items = items_of(4, range(CHUNKS), False)
    assert model.stuck(items, model.Device(32, 3, shared=True)) is not None
    assert model.stuck(items, model.Device(32, 3)) is None  # a fourth layer waits for the first


def test_an_order_without_a_writer_is_refused():
    items = [item for item in items_of(3, range(CHUNKS), False) if item.kind != "handover"]
    with pytest.raises(OrderError, match=r"Counter\(kind='ready', layer=1, chunk=0\)"):
        check_order(items)
