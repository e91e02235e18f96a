"""Sequences without a backward on the CPU, whose kernels multiply the input too."""

from __future__ import annotations

import threading

import pytest
import rnnc
import torch
from rnnc.runtime.cpu import kernels, target, tasks

# (T, B, input, heads, D, layers): blocks of steps and of rows, tails of panels and of depths.
SIZES = [
    (2, 1, 5, 1, 33, 1),
    (70, 1, 64, 1, 64, 2),
    (9, 5, 20, 2, 40, 3),
    (5, 70, 33, 1, 96, 2),
    (3, 19, 300, 1, 300, 2),
    (12, 3, 7, 3, 32, 1),
    (2, 130, 270, 1, 600, 1),
]


@pytest.fixture(autouse=True)
def at_all_sizes(monkeypatch):
    """Small sizes take these kernels as well."""
    monkeypatch.setattr(tasks, "_FEW_FEATURES", 0)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def error(found, wanted):
    return (found - wanted).norm() / wanted.norm().clamp(min=1e-9)


def check(rnn, x, states, bound):
    """Compare a call without gradients with the reference in float64."""
    exact = rnnc.RNN(
        rnn.cell,
        rnn.input_size,
        rnn.hidden_size,
        heads=rnn.heads,
        num_layers=rnn.num_layers,
        bidirectional=rnn.bidirectional,
        batch_first=rnn.batch_first,
        backend="reference",
        dtype=torch.float64,
    )
    exact.load_state_dict(rnn.state_dict())
    with torch.no_grad():
        y, last = rnn(x, states)
        wanted = exact(x.double(), None if states is None else [s.double() for s in states])
    assert y.shape == wanted[0].shape
    assert error(y.double(), wanted[0]) < bound
    for found, state in zip(last, wanted[1], strict=True):
        assert found.shape == state.shape
        assert error(found.double(), state) < bound


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru", "slstm", "peephole_lstm", "indrnn", "elman"])
def test_values_are_those_of_the_reference(name, given, monkeypatch):
    calls = []
    multiplies = kernels.multiplies_features
    seen = lambda *sizes: calls.append(sizes) or multiplies(*sizes)  # noqa: E731
    monkeypatch.setattr(kernels, "multiplies_features", seen)
    for seed, (steps, batch, size, heads, dim, layers) in enumerate(SIZES):
        torch.manual_seed(seed)
        cell, hidden = rnnc.cells.get(name), heads * dim
        for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 3e-6)):
            rnn = rnnc.RNN(cell, size, hidden, heads=heads, num_layers=layers, dtype=dtype)
            x = torch.randn(steps, batch, size, dtype=dtype)
            states = [torch.rand(layers, batch, hidden, dtype=dtype) for _ in cell.states]
            check(rnn, x, states if given else None, bound)
    assert len(calls) == 2 * len(SIZES)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("units", [False, True])
def test_threads_and_parts_of_units_decide_no_bit(threads, units, monkeypatch):
    if units:
        monkeypatch.setattr(tasks, "unit_parts", lambda b, h, dim, p, t: max(dim // 32, 1))
    torch.manual_seed(0)
    for steps, batch, hidden in ((9, 2, 100), (4, 40, 288)):
        rnn, x = rnnc.RNN(rnnc.cells.lstm, 30, hidden), torch.randn(steps, batch, 30)
        found = []
        for count in (1, threads):
            torch.set_num_threads(count)
            tasks._sizes.cache_clear()
            with torch.no_grad():
                y, last = rnn(x)
            found.append([y, *last])
        assert all(map(torch.equal, *found))
    tasks._sizes.cache_clear()


def test_a_row_has_the_same_bits_in_every_batch():
    torch.manual_seed(0)
    for hidden in (64, 300):
        rnn, x = rnnc.RNN(rnnc.cells.lstm, 40, hidden), torch.randn(6, 33, 40)
        with torch.no_grad():
            whole = rnn(x)[0]
            for rows in (1, 3, 7, 8, 20):
                assert torch.equal(rnn(x[:, :rows].contiguous())[0], whole[:, :rows])


@pytest.mark.parametrize("batch_first", [False, True])
def test_inputs_of_any_strides(batch_first):
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.gru, 12, 40, batch_first=batch_first, dtype=torch.float64)
    for x in (torch.randn(5, 7, 24)[..., ::2], torch.randn(12, 7, 5).permute(2, 1, 0)):
        check(rnn, x.double(), None, 1e-12)


@pytest.mark.parametrize("batch", [1, 40])
def test_one_step_is_a_sequence_like_any_other(batch, monkeypatch):
    """A single step takes other kernels, unless its states are to be saved."""
    monkeypatch.setattr(kernels, "multiplies_features", lambda *_: True)
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.lstm, 20, 33, num_layers=2, save="states", dtype=torch.float64)
    states = [torch.rand(2, batch, 33, dtype=torch.float64) for _ in range(2)]
    check(rnn, torch.randn(1, batch, 20, dtype=torch.float64), states, 1e-12)


def test_both_directions_multiply_features_too(monkeypatch):
    calls = []
    multiplies = target.multiplies_features
    seen = lambda *sizes: calls.append(sizes) or multiplies(*sizes)  # noqa: E731
    monkeypatch.setattr(target, "multiplies_features", seen)
    torch.manual_seed(0)
    for heads in (1, 2):
        rnn = rnnc.RNN(
            rnnc.cells.lstm, 10, 64, heads=heads, bidirectional=True, num_layers=2,
            dtype=torch.float64,
        )  # fmt: skip
        check(rnn, torch.randn(9, 4, 10, dtype=torch.float64), None, 1e-12)
    assert len(calls) == 8


def test_calls_at_the_same_time_do_not_share_memory():
    torch.manual_seed(0)
    rnns = [rnnc.RNN(rnnc.cells.lstm, 40, hidden) for hidden in (64, 100, 64, 32)]
    inputs = [torch.randn(20, 9, 40) for _ in rnns]
    with torch.no_grad():
        wanted = [rnn(x)[0] for rnn, x in zip(rnns, inputs, strict=True)]
    wrong = []

    def run(rnn, x, y):
        with torch.no_grad():
            wrong.extend(1 for _ in range(200) if not torch.equal(rnn(x)[0], y))

    threads = [
        threading.Thread(target=run, args=each) for each in zip(rnns, inputs, wanted, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
