"""Tiles have rows in the order of their lengths: what CUDA kernels run, as C++ on the CPU."""

from __future__ import annotations

import random

import pytest
import rnnc
import torch
from rnnc.runtime.call.layer_call import Choice, layer_call_of
from rnnc.runtime.call.masks import masks_of
from rnnc.runtime.call.tensors import ScanInputs
from rnnc.runtime.targets.registry import TARGETS

CELL = rnnc.cells.lstm
# B, T, N and D: more than two tiles of rows, of which the last is not full.
SIZES = {"block": (11, 11, 1, 24), "cluster": (19, 9, 1, 72), "grid": (19, 6, 1, 72)}
slow = pytest.mark.slow  # half a minute each, most of it in the C++ compiler
KINDS = ["block", pytest.param("cluster", marks=slow), pytest.param("grid", marks=slow)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tile_runs_as_many_steps_as_its_longest_row(kind, inputs_for, emulated_blocks, poisoned):
    """A step that runs saves what a backward reads; memory of other steps stays NaN."""
    batch, steps, *_ = SIZES[kind]
    drawn = inputs_for(CELL, *SIZES[kind], torch.float32, requires_grad=False)
    # In memory a short row lies beside each long one.
    lengths = torch.randint(steps // 2, steps + 1, (batch,))
    lengths[::2] = torch.randint(0, steps // 3, (len(lengths[::2]),))
    reverse = random.random() < 0.5
    masks = masks_of(lengths, None, (batch, steps), torch.device("cpu"), reverse)
    inputs = ScanInputs(drawn.wx, drawn.R, drawn.b, list(drawn.states), None, (), masks)
    choice = Choice(kind, "gates", "ieee", reverse)
    layer_call = layer_call_of(CELL.text, "simulated", True, (True, True), choice, False, True)
    saved = TARGETS["simulated"].forward(layer_call, inputs).saved
    ran = saved.isfinite().flatten(2).all(2).sum(0)
    assert ran.sum() == saved.isfinite().flatten(2).any(2).sum()
    (plan,) = emulated_blocks
    assert plan.kind == kind
    assert batch > 2 * plan.rows
    in_order = sorted(range(batch), key=lambda row: -lengths[row])
    for first in range(0, batch, plan.rows):
        tile = in_order[first : first + plan.rows]
        assert set(ran[tile].tolist()) == {max(int(lengths[tile[0]]), 1)}
