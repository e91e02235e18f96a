"""Calls under `vmap` by the target of a GPU, whose block plans run as C++ on the CPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.targets.registry import TARGETS

SIZE = 2
# The cell, whether rows have lengths and resets, and options.
MODULES = {
    "two layers": (rnnc.cells.lstm, False, {"num_layers": 2}),
    "lengths and resets": (rnnc.cells.lstm, True, {"bidirectional": True, "heads": 2}),
    "gates of all kinds": (None, True, {}),
}
CASES = [
    ("two layers", "weights"),
    ("two layers", "x"),
    *[
        pytest.param(name, what, marks=pytest.mark.slow)  # of the C++ compiler
        for name in list(MODULES)[1:]
        for what in ("weights", "rows", "lengths", "resets", "all")
    ],
]


@pytest.mark.parametrize(("name", "what"), CASES)
def test_modules(name, what, vmapped, emulated_blocks, monkeypatch):
    monkeypatch.setitem(TARGETS, "cpu", TARGETS["simulated"])
    cell, ragged, options = MODULES[name]
    given = {"ragged": ragged, "dtype": torch.float32, "variant": "block", **options}
    run, tensors = vmapped.module_call(cell or vmapped.blended, "cpu", **given)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)
    assert {plan.kind for plan in emulated_blocks} == {"block"}
