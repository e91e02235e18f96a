"""Calls under transforms of `torch.func` on a GPU, against a loop of plain calls."""

from __future__ import annotations

import pytest
import rnnc
import torch
from torch import func

SIZE = 3
# The cell, None for one with gates of all kinds, and options.
MODULES = {
    "two layers": (rnnc.cells.lstm, {"num_layers": 2}),
    "both directions": (rnnc.cells.gru, {"bidirectional": True, "heads": 2}),
    "states saved": (rnnc.cells.lstm, {"num_layers": 2, "save": "states"}),
    "params": (rnnc.cells.peephole_lstm, {}),
    "gates of all kinds": (None, {"num_layers": 2}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("what", ["weights", "rows", "x", "all"])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, what, ragged, dtype, vmapped):
    cell, options = MODULES[name]
    given = {"ragged": ragged, "dtype": dtype, **options}
    run, tensors = vmapped.module_call(cell or vmapped.blended, "cuda", **given)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("what", ["weights", "rows", "all"])
def test_scan(what, reverse, ragged, vmapped):
    run, tensors = vmapped.scan_call(vmapped.blended, "cuda", ragged, reverse)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


@pytest.mark.parametrize("what", ["weights", "x"])
def test_calls_that_come_again_have_values_of_their_own(what, vmapped):
    """From the third call on, calls and their backwards may be replays."""
    options = {"num_layers": 2, "dtype": torch.float32}
    run, tensors = vmapped.module_call(rnnc.cells.lstm, "cuda", **options)
    for _ in range(5):
        vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


def test_an_ensemble_is_a_launch_per_layer_and_direction(vmapped):
    options = {"num_layers": 2, "bidirectional": True, "dtype": torch.float32}
    run, tensors = vmapped.module_call(rnnc.cells.lstm, "cuda", **options)
    given, dims = vmapped.mapped(tensors, vmapped.is_weight, 96)
    with vmapped.counted() as seen:
        vmapped.inside(run, given, dims)
    assert seen.count("forward") == seen.count("backward") == 4


def test_a_module_of_half_precision(vmapped):
    modules = [rnnc.RNN(rnnc.cells.lstm, 3, 16, num_layers=2, device="cuda") for _ in range(SIZE)]
    weights, x = func.stack_module_state(modules)[0], torch.randn(5, 2, 3, device="cuda")

    def run(weights):
        return func.functional_call(modules[0], weights, (x,))[0]

    with torch.autocast("cuda", torch.bfloat16):
        found = func.vmap(run)(weights)
        wanted = torch.stack([module(x)[0] for module in modules])
    assert found.dtype == wanted.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.02)
