"""The search for the plan of a single step: who multiplies, and with which sizes."""

from __future__ import annotations

from dataclasses import replace

from ...layout import layout_of
from ...request import PlanRequest
from ...shape import Direction, Dtype
from .gradient_tile import gradient_tile
from .plan import StepPlan
from .tile import best_tile

# Where one kernel multiplies too, it reads the weights once per `MOST_ROWS` batch rows. Up to so
# many batch rows, and so many products of numbers in float32 and in the other dtypes, it takes less
# time on an H200 than two products of the matrix library and a pointwise kernel, or as much with
# fewer launches. An LSTM of 512 units in float32, in us: 4.4 and 8.0 at 1 row, 6.6 and 13.5 at 8,
# 15.0 and 14.1 at 32; of 2048 units: 35 and 51 at 1 row, 55 and 47 at 4.
MOST_FUSED = 32
MOST_PRODUCTS = {"float32": 2**26}
MOST_PRODUCTS_ELSE = 2**25
MOST_ROWS = 8


def step_kernels(request: PlanRequest, direction: Direction) -> tuple[StepPlan]:
    """The plan of one direction; every step has one.

    Args:
        request: what the plan is asked for; the batch of its shape is that of the call.
        direction: which of the two directions.
    """
    cell, shape, limits, tf32 = request.cell, request.shape, request.limits, request.tf32
    units, size = shape.heads * shape.head_dim, request.features
    assert size is not None
    asked = cell, shape, size, limits, tf32
    plan = StepPlan(direction=direction, arch=limits.arch, dtype=shape.dtype)
    rounds = shape.dtype == "float32"
    if direction == "backward":
        blocks = gradient_tile(*asked)
        return (replace(plan, gradient_tile=blocks, tf32=rounds) if blocks else plan,)
    tile = best_tile(*asked)
    if tile is not None:
        return (replace(plan, tile=tile, tf32=rounds),)
    layout = layout_of(cell)
    weights = len(layout.input_gates) * units * max(size, units)
    weights += len(layout.dense_gates) * units * shape.head_dim
    return (replace(plan, rows=fused_rows(shape.batch, weights, shape.dtype)),)


def fused_rows(batch: int, weights: int, dtype: Dtype) -> int:
    """The batch rows of a block of a forward that multiplies too; 0 where it should not.

    Args:
        batch: rows of the call.
        weights: numbers in W and R of a layer.
        dtype: of the call.
    """
    most = MOST_PRODUCTS.get(dtype, MOST_PRODUCTS_ELSE)
    if batch > MOST_FUSED or batch * weights > most:
        return 0
    return min(1 << (max(batch, 1) - 1).bit_length(), MOST_ROWS)
