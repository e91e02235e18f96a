"""Wavefronts that are recorded once and replayed: the same launches, and what happens on errors."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver import room, stream_memory
from rnnc.runtime.program import seen

STEPS, BATCH, HIDDEN = 256, 2, 32


@pytest.fixture
def calls(driver, monkeypatch):
    """Runs a module with and without gradients; gives the notes, and the keys of what computes."""
    monkeypatch.setattr(room, "is_here", lambda _: True)
    computed, record = [], seen.Replays._record

    def noted(self, *arguments):
        computed.append(arguments[0][0])
        return record(self, *arguments)

    monkeypatch.setattr(seen.Replays, "_record", noted)

    def calls(rnn):
        driver.clear()
        y, _ = rnn(torch.randn(STEPS, BATCH, 8))
        y.sum().backward()
        with torch.no_grad():
            rnn(torch.randn(STEPS, BATCH, 8))
        rnn.zero_grad()
        return list(driver)

    return calls, computed


def module(cell="lstm", **options):
    options = {"num_layers": 6, "layers": "wavefront", "backend": "simulated"} | options
    return rnnc.RNN(rnnc.cells.get(cell), 8, HIDDEN, **options)


def as_alike(notes):
    """Without what differs between two calls: the numbers of wavefronts, and addresses."""
    for note in notes:
        of = note.of
        if note.what == "kernel":
            of = tuple(place and place[1:] for place in of)
        elif note.what in ("wait", "write"):
            of = of[1]
        elif note.what == "product":
            of = len({*of})
        yield note._replace(of=of)


@pytest.mark.parametrize("order", ["wavefront", "sequential"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_replay_launches_the_same(calls, order, cell):
    run, computed = calls
    rnn = module(cell, layers=order)
    run(rnn)  # loads all kernels
    wanted = list(as_alike(run(rnn)))
    whats = [note.what for note in wanted]
    assert whats.count("product") == 3 * 4 * 5
    assert bool(whats.count("wait")) == (order == "wavefront")
    for _ in range(3):
        assert list(as_alike(run(rnn))) == wanted
    assert len(computed) == 3
    known = [k.replays for k in rnn._known_calls._entries.values()]
    assert all(each.program is not None for found in known for each in found._known.values())


def test_dropped_features_are_not_recorded_beside_the_caller(calls):
    run, _ = calls
    rnn = module(dropout=0.5)
    for _ in range(3):
        run(rnn)
    known = [k.replays for k in rnn._known_calls._entries.values()]
    made = [each.program for found in known for each in found._known.values()]
    assert len(made) == 3
    assert made == [None] * 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, torch.OutOfMemoryError])
def test_an_error_joins_what_has_been_issued(calls, driver, monkeypatch, error):
    """Without memory the call is computed: another plan may need less."""
    run, computed = calls
    rnn = module(num_layers=3)
    for _ in range(3):
        run(rnn)
    left, original = [10], stream_memory.HandOver.__call__

    def fails(self, running):
        left[0] -= 1
        if not left[0]:
            raise error
        original(self, running)

    monkeypatch.setattr(stream_memory.HandOver, "__call__", fails)
    driver.clear()
    x = torch.randn(STEPS, BATCH, 8)
    with torch.no_grad():
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                rnn(x)
        else:
            rnn(x)
    forks = 1 if error is KeyboardInterrupt else 2
    ended = [note for note in driver if note[:2] == ("caller", "record")]
    assert len(ended) == 2 * forks  # the caller's stream goes on after all others
    entered = [n for n in driver if n.what == "wait_event" and n.stream != "caller"]
    joined = [n for n in driver if n.what == "record" and n.stream != "caller"]
    assert [n.stream for n in joined] == [n.stream for n in entered]
    assert len(computed) == 3
    driver.clear()
    with torch.no_grad():
        rnn(x)  # the streams are free again
    assert [note.what for note in driver].count("kernel") == 3
