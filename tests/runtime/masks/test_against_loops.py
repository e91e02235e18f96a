"""Lengths and resets against loops over rows, with NaN in all padding."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cpu.compile import cpu_library

# Several dense pairs of two states, a diagonal one, params, initial values that are not zero.
CELLS = ("lstm", "gru", "slstm", "unicornn", "fastgrnn")
BACKENDS = ("reference", "cpu")
KINDS = ("init", "shared", "rows", "stored")
# Rows of no steps, of one, and of all; resets at 0, at length - 1, in the padding, in a row.
LENGTHS = (7, 0, 1, 5, 4, 7, 3)
RESETS = ([0, 3], [0, 2], [0], [4, 5], [1, 2, 3], [], [0, 1, 2, 3, 6])


# Cell, direction and backend; few cells are compiled.
CASES = [(name, reverse, "reference") for name in CELLS for reverse in (False, True)]
CASES += [
    (name, reverse, "cpu") for name, reverse in zip(CELLS[:4], (False, True) * 2, strict=True)
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Compile with few optimisations. Libraries of other flags round otherwise."""
    cpu_library.cache_clear()
    with monkeypatch.context() as patch:
        patch.setenv("RNNC_QUICK_COMPILE", "1")
        yield
    cpu_library.cache_clear()


def check(got, wanted, tolerance=1e-10):
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(
            got[name], value, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize(("name", "reverse", "backend"), CASES)
def test_all_results_and_gradients(name, reverse, backend, inputs_for, poisoned, ragged):
    cell = rnnc.cells.get(name)
    for kind in KINDS:
        case = ragged.Case(cell, inputs_for(cell, 7, 7, 2, 5), LENGTHS, RESETS, kind, reverse)
        seeds = case.seeds()
        check(case.run(backend, seeds), case.loops(seeds))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_alone(reverse, backend, inputs_for, poisoned, ragged):
    cell = rnnc.cells.gru if reverse else rnnc.cells.lstm
    case = ragged.Case(cell, inputs_for(cell, 7, 7, 2, 5), LENGTHS, [[]] * 7, "init", reverse)
    seeds = case.seeds()
    check(case.run(backend, seeds), case.loops(seeds))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("dtype", "reverse"), [(torch.float32, False), (torch.float64, False), (torch.float64, True)]
)
def test_full_lengths_change_no_bit(dtype, reverse, backend, inputs_for, ragged):
    cell = rnnc.cells.gru if reverse else rnnc.cells.lstm
    for batch, steps in ((3, 1), (9, 4)):
        inputs = inputs_for(cell, batch, steps, 2, 5, dtype)
        case = ragged.Case(cell, inputs, [steps] * batch, [[]] * batch, "init", reverse)
        seeds = case.seeds()

        def without(*arguments, lengths, **options):
            return rnnc.scan(*arguments, **options)

        got, wanted = case.run(backend, seeds), case.run(backend, seeds, without)
        for key, value in wanted.items():
            if backend == "reference" and key.startswith("d_"):
                torch.testing.assert_close(got[key], value)  # autograd adds in another order
            else:
                assert torch.equal(got[key], value), (key, steps)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_steps_and_no_rows(backend, inputs_for, ragged):
    cell = rnnc.cells.gru
    for batch, steps in ((2, 0), (0, 3)):
        case = ragged.Case(cell, inputs_for(cell, batch, steps, 1, 4), [0] * batch, [[]] * batch)
        seeds = case.seeds()
        got = case.run(backend, seeds)
        assert torch.equal(got["h last"], case.inputs.states[0])
        assert torch.equal(got["d_states[0]"], seeds[1][0])
