"""Factors whose product overflows: a cotangent is multiplied by one at a time, as in torch."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, State, erf, gate, sin, tanh
from rnnc.codegen.derive import derive

HUGE, HUGER = 2.0**70, 2.0**71


@rnnc.cell
def huge(*, h: State, g: Gate = gate(recurrent=False, bias=False)):
    return tanh(HUGE * sin(HUGE * erf(h + g) / HUGER) / HUGER)


@rnnc.cell
def huge_and_tiny(*, h: State, g: Gate = gate(recurrent=False, bias=False)):
    return tanh(3e30 * (h * (4e-30 * g)) * 1e-25 * 1e24)


def by_torch(cell, x, h):
    for t in range(x.shape[1]):
        g = x[:, t, :, :, 0]
        if cell is huge:
            h = torch.tanh(HUGE * torch.sin(HUGE * torch.erf(h + g) / HUGER) / HUGER)
        else:
            h = torch.tanh(3e30 * (h * (4e-30 * g)) * 1e-25 * 1e24)
    return h


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("cell", [huge, huge_and_tiny], ids=lambda c: c.name)
def test_gradients_of_huge_factors_are_finite_and_right(cell, backend):
    torch.manual_seed(3)
    x, h = torch.randn(4, 3, 2, 5, 1), torch.randn(4, 2, 5) * 0.5
    seed = torch.randn(4, 2, 5)

    def gradients(call):
        leaves = x.clone().requires_grad_(), h.clone().requires_grad_()
        return torch.autograd.grad(call(*leaves), leaves, seed)

    found = gradients(lambda x, h: rnnc.scan(cell, x, states=(h,), backend=backend)[1][0])
    wanted = gradients(lambda x, h: by_torch(cell, x.double(), h.double()).float())
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_no_power_of_a_huge_number():
    assert f"{HUGER}**" not in str(derive(huge).backward)
