"""Cells with stages: gradients of the largest value, nothing to save, a batch of no rows."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, State, largest, rms_norm, tanh

ROUNDED = 0.02  # of the largest gradient: bfloat16


@rnnc.cell
def with_largest(*, g: Gate, k: Gate, h: State):
    return 0.5 * h + 0.5 * largest(tanh(g)) * tanh(k)


@rnnc.cell
def without_gates(*, h: State):
    return 0.9 * rms_norm(h + 0.1)


def gradients(cell, sizes, backend, dtype, leaves):
    """Gradients of the tensors of a call, from values that bfloat16 has."""
    torch.manual_seed(5)
    found = [leaf.bfloat16().to(dtype).requires_grad_() for leaf in leaves]
    options = {"variant": "block"} if backend == "simulated" else {}
    wx, R, h = found
    over_time, _ = rnnc.scan(
        cell, wx, R if R.numel() else None, None, (h,), backend=backend, **options
    )
    seed = torch.randn(sizes[1], sizes[0], *sizes[2:]).transpose(0, 1).bfloat16().to(dtype)
    return torch.autograd.grad(over_time[0], found, seed, allow_unused=True)


@pytest.mark.parametrize("cell", [with_largest, without_gates], ids=lambda cell: cell.name)
def test_gradients_in_two_bytes(cell, emulated_blocks, poisoned):
    """The backward reads rounded gates: it cannot tell again which unit has the largest value."""
    sizes, gates = (6, 3, 2, 8), len(cell.gates)
    torch.manual_seed(1)
    R = torch.randn(gates, 2, 8, 8) * 0.5 if gates else torch.empty(0)
    leaves = torch.randn(*sizes, gates), R, torch.randn(6, 2, 8)
    wanted = gradients(cell, sizes, "reference", torch.float64, leaves)
    found = gradients(cell, sizes, "simulated", torch.bfloat16, leaves)
    for ours, exact in zip(found, wanted, strict=True):
        if exact is not None and exact.numel():
            assert (ours.double() - exact).abs().max() <= ROUNDED * exact.abs().max()


@pytest.mark.parametrize("kernels", ["emulated_blocks", "emulated_alternating"])
def test_no_rows(kernels, request, poisoned):
    """Weights of called gates get the gradient 0, as all others."""
    request.getfixturevalue(kernels)
    cell = rnnc.cells.gru_reset_first
    gates = len(cell.gates)
    leaves = torch.empty(0, 3, 2, 8, gates), torch.ones(gates, 2, 8, 8), torch.empty(0, 2, 8)
    found = [leaf.requires_grad_() for leaf in leaves]
    variant = "block" if kernels == "emulated_blocks" else "alternating"
    wx, R, h = found
    over_time, _ = rnnc.scan(cell, wx, R, None, (h,), backend="simulated", variant=variant)
    d_R = torch.autograd.grad(over_time[0].sum(), R)[0]
    assert not d_R.any()
