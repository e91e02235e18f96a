"""The order of launches, waits and writes of layers that run at the same time."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.wavefront import groups
from rnnc.codegen.cuda.wavefront.items import Counter, items_of
from rnnc.errors import NoCudaError, RnncError
from rnnc.runtime.cuda.wavefront import run as module_run
from rnnc.runtime.cuda.wavefront import schedule

LAYERS, CHUNKS, CHUNK, BATCH, HIDDEN = 3, 4, 64, 2, 32
STREAMS = LAYERS + LAYERS - 1  # of layers, and of the products between them


def module(**options):
    options = {"num_layers": LAYERS, "layers": "wavefront"} | options
    return rnnc.RNN(rnnc.cells.lstm, 8, HIDDEN, backend="simulated", **options)


@pytest.fixture
def run(driver, monkeypatch):
    """Run a module and its backward; gives the notes of both."""
    # All layers at once: the estimate would divide them.
    largest = groups.wavefronts

    def all_at_once(*arguments):
        alone, found = largest(*arguments)
        return alone, [each for each in found if max(each.groups) == LAYERS]

    monkeypatch.setattr(schedule, "wavefronts", all_at_once)

    def run(rnn, steps=CHUNKS * CHUNK):
        driver.clear()
        y, last = rnn(torch.randn(steps, BATCH, 8))
        forward = list(driver)
        driver.clear()
        (y.sum() + last[1].sum()).backward()
        return forward, list(driver)

    return run


def of(notes, stream, *what):
    return [note for note in notes if note.stream == stream and note.what in what]


def issued(notes):
    """What streams of a wavefront were given, as the schedule has it, and its number."""
    numbers = {note.of[0] for note in notes if note.what in ("wait", "write")}
    (number,) = numbers
    found = []
    for note in notes:
        kind, place = note.stream.split() if " " in note.stream else (note.stream, 0)
        if note.what in ("kernel", "product", "wait", "write"):
            of = note.of[1] if note.what in ("wait", "write") else None
            found.append((note.what, kind, int(place), of))
    return number, found


@pytest.mark.parametrize("direction", [0, 1])
def test_what_is_issued_is_the_schedule(run, direction):
    rnn = module()
    run(rnn)
    _, found = issued(run(rnn)[direction])
    chunks = range(CHUNKS) if direction == 0 else range(CHUNKS - 1, -1, -1)
    wanted = []
    for item in items_of(LAYERS, chunks, False):
        lane = item.lane
        if item.kind == "handover":
            wanted += [("write", *lane, counter) for counter in item.signals]
            wanted += [("wait", *lane, counter) for counter in item.waits]
        else:
            wanted.append(("kernel" if item.kind == "layer" else "product", *lane, None))
    assert found == wanted


@pytest.mark.parametrize("direction", [0, 1])
def test_counters_are_full_when_all_that_writes_them_has(run, direction):
    rnn = module()
    run(rnn)
    notes = run(rnn)[direction]
    number, _ = issued(notes)
    for layer in range(LAYERS):
        (kernel,) = of(notes, f"layer {layer}", "kernel")
        ready, done = kernel.of
        assert ready == ((number, Counter("ready", layer)) if layer else None)
        assert done == ((number, Counter("done", layer)) if layer + 1 < LAYERS else None)
    (started,) = {
        note.value for note in notes if note.what == "wait" and note.of[1][0] == "started"
    }
    (done,) = {note.value for note in notes if note.what == "wait" and note.of[1][0] == "done"}
    assert done % started == 0  # warps of all blocks
    assert {note.value for note in notes if note.what == "write"} == {1}


def test_all_streams_follow_the_caller_and_the_caller_follows_them(run):
    rnn = module()
    run(rnn)
    first, second = run(rnn)
    for notes in (first, second):
        forks = [n for n in notes if n.what == "record" and n.stream == "caller"]
        waits = [n for n in notes if n.what == "wait_event" and n.stream != "caller"]
        assert len({n.stream for n in waits}) == len(waits) == STREAMS
        assert {n.of for n in waits} == {forks[0].of}
        joined = [n.of for n in notes if n.what == "record" and n.stream != "caller"]
        after = [n.of for n in notes if n.what == "wait_event" and n.stream == "caller"]
        assert len(joined) == STREAMS
        assert after[-len(joined) :] == joined
    # One wavefront runs at a time: the second begins after the end of the first.
    assert second[0].what == "wait_event"
    assert second[0].of is [n for n in first if n.what == "record"][-1].of


def test_sequential_multiplies_the_same_chunks_on_the_callers_stream(run):
    for notes in run(module(layers="sequential"), steps=CHUNKS * CHUNK + 5):
        whats = [note.what for note in notes if note.what in ("kernel", "product")]
        assert whats == ["kernel", *(["product"] * (CHUNKS + 1) + ["kernel"]) * (LAYERS - 1)]
        assert {note.stream for note in notes} == {"caller"}


@pytest.mark.parametrize("direction", [0, 1])
def test_the_product_after_a_group_runs_behind_its_last_layer(run, direction):
    rnn = module(num_layers=2 * LAYERS)
    run(rnn)
    notes = run(rnn)[direction]
    assert not of(notes, "caller", "product")
    middle = [i for i, n in enumerate(notes) if (n.stream, n.what) == ("layer 0", "kernel")][1]
    for part, followed in ((notes[:middle], True), (notes[middle:], False)):
        kernels = [note.of for note in part if note.what == "kernel"]
        assert [ready is None for ready, _ in kernels] == [True] + [False] * (LAYERS - 1)
        assert (kernels[-1][1] is not None) == followed
        behind = of(part, f"product {LAYERS - 1}", "wait", "product", "write")
        assert [note.what for note in behind] == ["wait", "product"] * (CHUNKS * followed)
        assert {note.of[1][:2] for note in behind[::2]} <= {("done", LAYERS - 1)}


def test_auto_multiplies_all_steps_at_once_unless_it_takes_the_wavefront(run, monkeypatch):
    chip = schedule._chip
    monkeypatch.setattr(schedule, "_chip", None)  # nothing is compiled for it
    monkeypatch.setattr(schedule, "gains", lambda *_: False)
    for notes in run(module(layers="auto")):
        assert [note.what for note in notes] == ["kernel"] * LAYERS
    schedule._found.cache_clear()
    monkeypatch.setattr(schedule, "_chip", chip)
    monkeypatch.setattr(schedule, "gains", lambda *_: True)
    for notes in run(module(layers="auto")):
        assert len(issued(notes)[1]) > LAYERS


def test_auto_runs_layers_one_by_one_where_the_last_chunk_s_product_needs_more_room(
    driver, monkeypatch
):
    asked, rows = [], CHUNK * BATCH

    def bounded(question, count):
        asked.append(count)
        return count == rows

    monkeypatch.setattr(schedule, "bounded_products", bounded)
    monkeypatch.setattr(schedule, "gains", lambda *_: True)
    x = torch.randn(CHUNKS * CHUNK + 16, BATCH, 8)
    module(layers="auto")(x)
    assert set(asked) == {rows, 16 * BATCH}
    assert [note.what for note in driver if note.what == "kernel"] == ["kernel"] * LAYERS
    with pytest.raises(RnncError, match="products that may need more room"):
        module()(x)


def test_auto_asks_for_products_of_weights_as_they_are_aligned(driver, monkeypatch):
    asked = []
    monkeypatch.setattr(
        schedule, "bounded_products", lambda question, _: asked.append(question.alignment)
    )
    rnn, x = module(), torch.randn(CHUNKS * CHUNK, BATCH, 8)
    weight = rnn.weight_ih_l1
    weight.data = torch.empty(weight.numel() + 1)[1:].view_as(weight).copy_(weight.data)
    with pytest.raises(RnncError, match="products that may need more room"):
        rnn(x)
    assert asked == [4]


@pytest.mark.parametrize("left", range(1, 14))
def test_an_error_joins_what_has_been_issued(run, driver, monkeypatch, left):
    """What has been issued ends by itself: nothing is written for it."""
    rnn = module()
    run(rnn)
    issue, count = module_run._Group._issue, iter(range(left))

    def fails(self, item, lane):
        if next(count, None) is None:
            raise KeyboardInterrupt
        issue(self, item, lane)

    driver.clear()
    with monkeypatch.context() as patch:
        patch.setattr(module_run._Group, "_issue", fails)
        with pytest.raises(KeyboardInterrupt):
            rnn(torch.randn(CHUNKS * CHUNK, BATCH, 8))
    entered = {n.stream for n in driver if n.what == "wait_event" and n.stream != "caller"}
    recorded = [n for n in driver if n.what == "record" and n.stream != "caller"]
    assert {n.stream for n in recorded} == entered
    joined = [n.of for n in driver if n.what == "wait_event" and n.stream == "caller"]
    assert joined[1:] == [n.of for n in recorded]
    assert driver[-1][:2] == ("caller", "record")
    assert torch.cuda.current_stream().name == "caller"
    rnn(torch.randn(CHUNKS * CHUNK, BATCH, 8))  # the streams are free again


@pytest.mark.parametrize(
    ("options", "steps", "why"),
    [
        ({}, CHUNKS * CHUNK - 1, "255 steps, fewer than four chunks"),
        ({"variant": "grid"}, 256, "a plan of the kind grid"),
        ({"bidirectional": True}, 256, "both directions of time"),
        ({"dtype": torch.bfloat16, "heads": 32}, 256, "an odd number of two-byte elements"),
    ],
)
def test_a_wavefront_that_is_impossible_names_the_reason(driver, options, steps, why):
    rnn = module(**options)
    with pytest.raises(RnncError, match=why) as caught:
        rnn(torch.randn(steps, BATCH, 8, dtype=options.get("dtype", torch.float32)))
    assert 'layers="wavefront"' in str(caught.value)
    assert 'layers="auto"' in str(caught.value)
    if rnn.bidirectional:  # no streams here for both directions
        return
    rnn.layers = "auto"
    rnn(torch.randn(steps, BATCH, 8, dtype=options.get("dtype", torch.float32)))


def no_partition(*_):
    raise NoCudaError("a partition", "AttributeError: cuGreenCtxCreate", "a driver", "nothing")


def test_no_wavefront_without_room_or_queues_or_on_a_cpu(driver, monkeypatch):
    x = torch.randn(256, BATCH, 8)
    with monkeypatch.context() as patch:
        patch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1")
        with pytest.raises(RnncError, match="CUDA_DEVICE_MAX_CONNECTIONS=1"):
            module()(x)
    schedule._found.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "_chip", lambda *_: groups.Chip(40, 1))
        with pytest.raises(RnncError, match="no room for two layers, of 1 block each"):
            module()(x)
    schedule._found.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(schedule.partition_of(0, 88, False), "resident_blocks", lambda *_: 1)
        with pytest.raises(RnncError, match="no room for two layers, of 1 block each"):
            module()(x)
    schedule._found.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "partition_of", no_partition)
        with pytest.raises(RnncError, match="a driver without partitions: AttributeError"):
            module()(x)
    schedule._found.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "bounded_products", lambda *_: False)
        with pytest.raises(RnncError, match="products that may need more room"):
            module()(x)
    with pytest.raises(RnncError, match="tensors on cpu"):
        rnnc.RNN(rnnc.cells.lstm, 8, HIDDEN, num_layers=2, layers="wavefront", backend="cpu")(x)


def test_one_layer_and_one_step_are_the_same_in_any_order(driver):
    for options, steps in (({"num_layers": 1}, 256), ({}, 1)):
        rnn = module(**options)
        rnn(torch.randn(steps, BATCH, 8))
        assert "wait" not in [note.what for note in driver]
    rnn.step(torch.randn(BATCH, 8))
