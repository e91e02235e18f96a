"""How a call is divided among threads changes no result beyond rounding."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cpu import tasks

# (B, T, N, D): odd tails of rows, units and panels, and a single step.
SHAPES = [
    (1, 1, 1, 40),
    (3, 1, 2, 33),
    (1, 7, 1, 70),
    (5, 6, 1, 100),
    (3, 4, 2, 33),
    (70, 3, 1, 32),
]


@pytest.fixture
def divide(monkeypatch):
    """Sets how many threads a call has, and whether it divides the units wherever it can."""
    before = torch.get_num_threads()

    def change(threads, units):
        torch.set_num_threads(threads)
        if units:
            monkeypatch.setattr(tasks, "unit_parts", lambda b, h, dim, p, t: max(dim // 32, 1))
        tasks._sizes.cache_clear()

    yield change
    torch.set_num_threads(before)
    tasks._sizes.cache_clear()


def outputs_and_gradients(cell, shape, backend, seed):
    torch.manual_seed(seed)
    batch, steps, heads, dim = shape
    rnn = rnnc.RNN(cell, 5, heads * dim, heads=heads, backend=backend, dtype=torch.float64)
    x = torch.randn(steps, batch, 5, dtype=torch.float64, requires_grad=True)
    first = [torch.randn(1, batch, heads * dim, dtype=torch.float64) for _ in cell.states]
    first = [state.requires_grad_() for state in first]
    y, last = rnn(x, first)
    total = y.sin().sum() + sum((state * state).sum() for state in last)
    named = {
        "x": x,
        **{f"state {i}": s for i, s in enumerate(first)},
        **dict(rnn.named_parameters()),
    }
    gradients = torch.autograd.grad(total, list(named.values()))
    found = {"y": y, **{f"last {i}": s for i, s in enumerate(last)}}
    return found | {f"gradient of {n}": g for n, g in zip(named, gradients, strict=True)}


@pytest.mark.parametrize("units", [False, True], ids=["rows", "units"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_parts_give_the_values_of_the_reference(threads, units, divide):
    divide(threads, units)
    for cell in (rnnc.cells.lstm, rnnc.cells.gru):
        for seed, shape in enumerate(SHAPES):
            wanted = outputs_and_gradients(cell, shape, "reference", seed)
            got = outputs_and_gradients(cell, shape, "cpu", seed)
            for name, value in wanted.items():
                error = (got[name] - value).norm() / value.norm()
                assert error < 1e-12, (cell.name, shape, name)


def test_the_parts_of_units_decide_no_bit(divide):
    divide(2, False)
    whole = outputs_and_gradients(rnnc.cells.lstm, (2, 9, 1, 100), "cpu", 0)
    divide(2, True)
    parts = outputs_and_gradients(rnnc.cells.lstm, (2, 9, 1, 100), "cpu", 0)
    unlike = [name for name in whole if not torch.equal(whole[name], parts[name])]
    assert all("bias" in name for name in unlike)  # sums over batch rows, in another order


@pytest.mark.parametrize("dim", [20, 64, 96, 300])
@pytest.mark.parametrize("threads", [1, 2, 7, 16])
@pytest.mark.parametrize("batch", [0, 1, 3, 16, 200])
def test_tasks_cover_all_units_in_whole_panels(dim, threads, batch):
    for heads in (1, 2):
        sizes = tasks._sizes(8, batch, heads, dim, 4, threads)
        assert sizes.part_units == dim or sizes.part_units % 32 == 0
        parts = -(-dim // sizes.part_units)
        assert parts == 1 or parts * heads <= threads
        assert sizes.tile_rows >= 1
        assert parts == 1 or sizes.tile_rows >= batch
