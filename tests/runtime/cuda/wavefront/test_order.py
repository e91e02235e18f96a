"""The order of launches, waits and writes of layers that run at the same time."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.wavefront import groups
from rnnc.runtime.cuda.wavefront import schedule
from rnnc.runtime.errors import RnncError

LAYERS, CHUNKS, CHUNK, BATCH, HIDDEN = 3, 4, 64, 2, 32
STREAMS = LAYERS + 1 + 2 * (LAYERS - 1)  # of layers, of the reserve, and two per product


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


def lane(layer, way):
    """The stream of the product before a layer; the first lane is that of the reserve."""
    return f"product {1 + 2 * (layer - 1) + way}"


@pytest.mark.parametrize("direction", [0, 1])
def test_each_layer_waits_for_the_one_before(run, direction):
    rnn = module()
    run(rnn)  # loads all kernels
    notes = run(rnn)[direction]
    in_order = range(CHUNKS) if direction == 0 else range(CHUNKS - 1, -1, -1)
    number = notes[[n.what for n in notes].index("kernel") - 1].of[0]
    assert not of(notes, "caller", "product")
    for layer in range(LAYERS):
        wait, kernel = of(notes, f"layer {layer}", "wait", "kernel")
        assert (wait.what, kernel.what) == ("wait", "kernel")
        before = (number, "started", layer - 1) if layer else (number, "reserved")
        assert wait.of == before
        ready, done = kernel.of
        assert ready == ((number, "ready", layer, 0) if layer else None)
        assert done == ((number, "done", layer, 0) if layer + 1 < LAYERS else None)
    blocks = of(notes, "layer 1", "wait")[0].value
    for layer in range(1, LAYERS):
        for way in (0, 1):  # its chunks take turns
            found = of(notes, lane(layer, way), "wait", "product", "write")
            own = [chunk for chunk in in_order if chunk % 2 == way]
            assert [note.what for note in found] == ["wait", "product", "write"] * len(own)
            waits, writes = found[::3], found[2::3]
            assert [note.of for note in waits] == [(number, "done", layer - 1, c) for c in own]
            assert [note.of for note in writes] == [(number, "ready", layer, c) for c in own]
            assert all(note.value % blocks == 0 for note in waits)  # warps of all blocks
            assert {note.value for note in writes} == {1}


@pytest.mark.parametrize("direction", [0, 1])
def test_what_waits_comes_after_what_it_waits_for(run, direction):
    rnn = module()
    run(rnn)
    notes = run(rnn)[direction]
    kernels = [i for i, note in enumerate(notes) if note.what == "kernel"]
    products = [i for i, note in enumerate(notes) if note.what == "product"]
    (reserve,) = (i for i, note in enumerate(notes) if note.what == "reserve")
    assert reserve < kernels[0] < kernels[-1] < products[0]
    # A product follows the one whose result its input depends on, and all before it in its layer.
    done = set()
    for note in notes:
        if note.what != "write":
            continue
        _, _, layer, chunk = note.of
        assert layer == 1 or (layer - 1, chunk) in done
        done.add((layer, chunk))
    assert len(done) == (LAYERS - 1) * CHUNKS


def test_all_streams_follow_the_caller_and_the_caller_follows_them(run):
    rnn = module()
    run(rnn)
    first, second = run(rnn)
    for notes in (first, second):
        forks = [n for n in notes if n.what == "record" and n.stream == "caller"]
        waits = [n for n in notes if n.what == "wait_event" and n.stream != "caller"]
        assert len(waits) == STREAMS
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
    middle = [i for i, note in enumerate(notes) if note.what == "reserve"][1]
    for part, followed in ((notes[:middle], True), (notes[middle:], False)):
        kernels = [note.of for note in part if note.what == "kernel"]
        assert [ready is None for ready, _ in kernels] == [True] + [False] * (LAYERS - 1)
        assert (kernels[-1][1] is not None) == followed
        for way in (0, 1):
            behind = of(part, lane(LAYERS, way), "wait", "product", "write")
            count = CHUNKS // 2 if followed else 0
            assert [note.what for note in behind] == ["wait", "product"] * count
            assert {note.of[1:3] for note in behind[::2]} <= {("done", LAYERS - 1)}


def test_auto_multiplies_all_steps_at_once_unless_it_takes_the_wavefront(run, monkeypatch):
    room = schedule._room
    monkeypatch.setattr(schedule, "_room", None)  # nothing is compiled for it
    monkeypatch.setattr(schedule, "gains", lambda *_: False)
    for notes in run(module(layers="auto")):
        assert [note.what for note in notes] == ["kernel"] * LAYERS
    schedule._found.cache_clear()
    monkeypatch.setattr(schedule, "_room", room)
    monkeypatch.setattr(schedule, "gains", lambda *_: True)
    for notes in run(module(layers="auto")):
        assert [note.what for note in notes].count("reserve") == 1


def test_kernels_are_loaded_by_the_callers_stream_first(run):
    rnn = module()
    first, again = run(rnn)[0], run(rnn)[0]
    assert len(of(first, "caller", "product")) == (LAYERS - 1) * CHUNKS
    assert not of(again, "caller", "product")
    whats = [note.what for note in first]
    assert whats.index("reserve") > max(
        i for i, n in enumerate(first) if n.what == "product" and n.stream == "caller"
    )


def test_an_error_lets_what_waits_go_on(run, driver, monkeypatch):
    from rnnc.runtime.cuda.wavefront import run as module_run

    rnn = module()
    run(rnn)
    made = []

    class Kept(module_run.Counters):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module_run, "Counters", Kept)
    monkeypatch.setattr(module_run, "write", fails)
    driver.clear()
    with pytest.raises(KeyboardInterrupt):
        rnn(torch.randn(CHUNKS * CHUNK, BATCH, 8))
    assert made[-1].tensor.min() >= 2**30
    assert driver[-1].what == "record"  # the caller's stream has joined all others
    assert torch.cuda.current_stream().name == "caller"


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


def test_no_wavefront_without_room_or_queues_or_on_a_cpu(driver, monkeypatch):
    x = torch.randn(256, BATCH, 8)
    with monkeypatch.context() as patch:
        patch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1")
        with pytest.raises(RnncError, match="CUDA_DEVICE_MAX_CONNECTIONS=1"):
            module()(x)
    schedule._found.cache_clear()
    monkeypatch.setattr(schedule, "_room", lambda *_: groups.Room(132, 1, 1))
    with pytest.raises(RnncError, match="no room for two layers"):
        module()(x)
    with pytest.raises(RnncError, match="tensors on cpu"):
        rnnc.RNN(rnnc.cells.lstm, 8, HIDDEN, num_layers=2, layers="wavefront", backend="cpu")(x)


def test_one_layer_and_one_step_are_the_same_in_any_order(driver):
    for options, steps in (({"num_layers": 1}, 256), ({}, 1)):
        rnn = module(**options)
        rnn(torch.randn(steps, BATCH, 8))
        assert "reserve" not in [note.what for note in driver]
    rnn.step(torch.randn(BATCH, 8))
