"""The library's cells with stages against loops of plain torch: values, and gradients by name."""

from __future__ import annotations

import pytest
import rnnc
import torch

NAMES = [name for name in rnnc.cells.names() if rnnc.cells.get(name).has_stages]


# tests/runtime/cpu compares the kernels with the reference.
@pytest.mark.parametrize("backend", ["reference", pytest.param("cpu", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_cell_equals_a_loop_of_torch(name, backend, stage_steps, torch_loops):
    cell = rnnc.cells.get(name)
    tensors = torch_loops.calls(cell, mean=0, spread=1, steps=9)
    for state in cell.states:
        tensors[state.name] = torch.randn_like(tensors[state.name])
    if name == "layer_norm_slstm":  # n is positive after the first step, 0 before it
        tensors["n"] = tensors["n"].abs()
        tensors["n"][0] = tensors["c"][0] = 0
    step, gates = stage_steps.STEPS[name], torch_loops.gate_functions
    torch_loops.check_against_loop(cell, tensors, step, backend, 1e-9, gates)


def test_every_cell_with_stages_has_a_loop(stage_steps):
    assert sorted(stage_steps.STEPS) == NAMES
    assert len(NAMES) >= 30
