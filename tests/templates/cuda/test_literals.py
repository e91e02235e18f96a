"""Numbers of any size in a cell's equations compile."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import Constant, Gate, State, constant, maximum, minimum, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.nvrtc import compile_plan

pytestmark = pytest.mark.usefixtures("compiler")


@rnnc.cell
def large(g: Gate, h: State, beyond: Constant = constant(1e39)):
    """Numbers at and beyond the ends of float32, and whole numbers beyond 64 bits."""
    low = maximum(g * 2.0**64, -3.4028234663852886e38) * 1e-19
    high = minimum(low + 1e-20 * 10**20, beyond)
    return tanh(minimum(high, 1e300)) + h / 2


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [("block", "float32"), ("block", "bfloat16"), ("alternating", "float64")],
)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_large_numbers_compile(variant, dtype, direction):
    plan = plan_for(large, Shape(1, 16, 2, dtype=dtype), limits_of("H200"), variant)
    assert compile_plan(large, getattr(plan, direction)).cubin
