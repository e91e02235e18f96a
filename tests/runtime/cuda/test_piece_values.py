"""Values and gradients of programs in pieces, whose CUDA kernels run as C++ on the CPU."""

from __future__ import annotations

import re

import pytest
import rnnc
import torch
from rnnc import Gate, State, sigmoid, sin, tanh
from rnnc.codegen import emit, emit_pieces
from rnnc.codegen.cuda.source import kernel_source


@pytest.fixture(autouse=True)
def always_in_pieces(monkeypatch):
    """Programs in pieces of a call each."""
    monkeypatch.setattr(emit, "MOST_COPIES", 0.5)
    monkeypatch.setattr(emit, "MOST_COPIES_OF_LOOPS", 0.5)
    monkeypatch.setattr(emit, "MOST_CALLS", 0)
    monkeypatch.setattr(emit, "FEWEST_CALLED", 1)
    monkeypatch.setattr(emit_pieces, "CALLS", 1)


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
def test_pieces_around_loops(name, loop_cells, emulated_blocks, inputs_for, poisoned):
    """Conditions, numbers and carried values go from piece to piece, and into loops."""
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


@rnnc.cell
def divided(g: Gate, f: Gate, h: State):
    """Divisions by values and by a number, in the forward and in pullbacks."""
    a = tanh(g) / (1 + h * h)
    return sigmoid(f) / (2 + sin(a)) + a / 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pieces_call_divisions(dtype, emulated_blocks, inputs_for, poisoned):
    """In two bytes they are approximations, and inline."""
    torch.manual_seed(0)
    inputs = inputs_for(divided, 3, 4, 1, 24, dtype)
    got = results(divided, inputs, "simulated", precision="ieee")
    (plan,) = (plan for plan in emulated_blocks if plan.direction == "backward")
    code = kernel_source(divided, plan).code
    kind = "__device__ __noinline__" if dtype == torch.float32 else "RNNC_INLINE"
    assert code.count(f"{kind} real divide(real a, real b) {{ return a/b; }}") == 1
    assert code.count(" divide(") > 3
    bound = 1e-4 if dtype == torch.float32 else 3e-2
    for key, value in results(divided, inputs, "reference").items():
        torch.testing.assert_close(got[key], value, rtol=bound, atol=bound, msg=key)
