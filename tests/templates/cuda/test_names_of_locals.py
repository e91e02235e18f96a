"""A cell may use the names that a kernel's own code uses for its arguments."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, sigmoid, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.cuda.nvrtc import compile_plan


@rnnc.cell
def arrays(gate: Gate, kept: Gate, state: State, before: State, param: Param, d: Param):
    """A cell whose values have the names of a kernel's arrays."""
    before = sigmoid(gate) * before + d * kept
    return tanh(before * param) + state * 0.5, before


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("variant", ["block", "alternating"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_cuda_compiles(variant, direction):
    plan = plan_for(arrays, Shape(1, 16, 2), limits_of("H200"), variant)
    assert compile_plan(arrays, getattr(plan, direction)).cubin


def test_cpu_agrees_with_the_reference():
    wx = torch.randn(2, 3, 1, 4, 2, dtype=torch.float64, requires_grad=True)
    R = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    params = {name: torch.randn(1, 4, dtype=torch.float64) for name in ("param", "d")}
    found = [
        torch.autograd.grad(
            rnnc.scan(arrays, wx, R, params=params, backend=backend)[0][0].square().sum(), wx
        )[0]
        for backend in ("cpu", "reference")
    ]
    torch.testing.assert_close(*found)
