"""Values and gradients of programs in pieces, whose CUDA kernels run as C++ on the CPU."""

from __future__ import annotations

import re

import pytest
import rnnc
import torch
from rnnc.codegen import emit, emit_pieces
from rnnc.codegen.cuda.source import kernel_source


def results(cell, inputs, backend, **choice):
    over_time, last = rnnc.scan(
        cell, inputs.wx, inputs.R, inputs.b, inputs.states,
        R_diag=inputs.R_diag, params=inputs.params, inputs=inputs.inputs, backend=backend, **choice,
    )  # fmt: skip
    found = {f"over time {i}": s for i, s in enumerate(over_time)}
    found |= {f"last {i}": s for i, s in enumerate(last)}
    leaves = inputs.named()
    torch.manual_seed(1)
    loss = sum((r * torch.randn(r.shape)).sum() for r in found.values())
    gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return found | {f"d {name}": g for name, g in zip(leaves, gradients, strict=True)}


@pytest.mark.parametrize("name", ["nested", "chained", "spiking"])
def test_pieces_around_loops(name, loop_cells, emulated_blocks, inputs_for, poisoned, monkeypatch):
    """Conditions, numbers and carried values go from piece to piece, and into loops."""
    monkeypatch.setattr(emit, "MOST_COPIES", 0)
    monkeypatch.setattr(emit, "MOST_CALLS", 0)
    monkeypatch.setattr(emit, "FEWEST_CALLED", 1)
    monkeypatch.setattr(emit_pieces, "CALLS", 1)
    torch.manual_seed(0)
    loop = loop_cells.unrolled if name == "spiking" else rnnc.repeat
    cell = loop_cells.CELLS[name](loop, 3)
    inputs = inputs_for(cell, 3, 4, 1, 24, torch.float32)
    got = results(cell, inputs, "simulated", precision="ieee")
    assert {plan.direction for plan in emulated_blocks} == {"forward", "backward"}
    (plan,) = (plan for plan in emulated_blocks if plan.direction == "backward")
    code = kernel_source(cell, plan).code
    assert re.search(r"__noinline__ void pointwise_backward_\d+\(real\* kept", code)
    for key, value in results(cell, inputs, "reference").items():
        torch.testing.assert_close(got[key], value, rtol=1e-4, atol=1e-5, msg=key)
