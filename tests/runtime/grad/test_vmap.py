"""Calls under `vmap`: values and gradients of a loop of plain calls, by few calls of kernels."""

from __future__ import annotations

import pytest
import rnnc
import torch

LSTM, SIZE = rnnc.cells.lstm, 3
MODULES = {
    "two layers": (LSTM, {"num_layers": 2}),
    "both directions": (LSTM, {"num_layers": 2, "bidirectional": True, "heads": 2}),
    "states saved": (LSTM, {"num_layers": 2, "save": "states"}),
    "a gate without input": (rnnc.cells.gru, {"heads": 2}),
    "params": (rnnc.cells.peephole_lstm, {"num_layers": 2}),
    "diagonal weights": (rnnc.cells.brc, {"num_layers": 2, "bidirectional": True}),
}
WHAT = ["weights", "one weight", "a bias", "rows", "x", "states", "all"]


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, what, vmapped):
    cell, options = MODULES[name]
    run, tensors = vmapped.module_call(cell, "cpu", **options)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


@pytest.mark.parametrize("what", ["weights", "rows", "lengths", "resets", "all"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "blended"])
def test_lengths_resets_and_inputs(cell, both, what, vmapped):
    cell = vmapped.blended if cell == "blended" else LSTM
    options = {"num_layers": 2, "bidirectional": both, "ragged": True}
    run, tensors = vmapped.module_call(cell, "cpu", **options)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


@pytest.mark.parametrize("what", [*WHAT, "lengths", "resets"])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "brc", "blended"])
def test_scan(cell, reverse, ragged, what, vmapped):
    cell = vmapped.blended if cell == "blended" else rnnc.cells.get(cell)
    run, tensors = vmapped.scan_call(cell, "cpu", ragged, reverse)
    given, dims = vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE)
    if all(dim is None for dim in dims.values()):
        pytest.skip("the call has none")
    vmapped.check(run, given, dims, SIZE)
