"""Upper bounds for the registers per thread of a block kernel, without those that hold R.

They are linear bounds, fitted to what NVRTC 13.0 needs for sm_90a without spills, for 225 plans of
the library's cells, and rounded up. A test compiles every cell against them.
"""

from __future__ import annotations

import math

from ....constrint.language.expression import Expression
from ...derive import Pointwise
from ...layout import layout_of
from ...shape import Shape
from ..refusal import Margin

# Registers per thread that kernels of cells with stages may have below these bounds. Of the library
# they then spill at most 192 bytes, those of rows with lengths or resets alone; those that are
# planned to spill 704 (layer_norm_lstm in float32, whose 14 params a thread keeps, from 33 units).
STAGED_MARGINS: dict[Margin, int] = {"kept": 0, "without": 18, "spills": 26}


def forward_registers(
    pointwise: Pointwise, shape: Shape, groups: Expression, tiles: Expression, rows: int
) -> Expression:
    """Registers per thread of the forward kernel.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        groups: groups of 8 units per warp.
        tiles: tiles of R per warp whose products are in registers at once.
        rows: batch rows per block.
    """
    layout = layout_of(pointwise.cell)
    states, gates, saved = len(layout.states), len(layout.gates), len(pointwise.saved)
    each_item = math.ceil(2 + 0.2 * states + gates + 0.7 * saved)
    each_unit = math.ceil(1.3 * _values_per_unit(pointwise))
    # A float32 number is split into two numbers for the matrix instructions.
    split = shape.dtype == "float32"
    working, each_tile = (74, 14) if split else (30, 6)
    working += pointwise.extra_values("forward")
    return working + each_tile * tiles + groups * (rows // 4 * each_item + each_unit)


def backward_registers(pointwise: Pointwise, shape: Shape, rows: int, sources: int) -> int:
    """Registers per thread of the backward kernel.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        rows: batch rows per block.
        sources: what R transposed gives gradients of, at once.
    """
    layout = layout_of(pointwise.cell)
    states, gates = len(layout.states), len(layout.gates)
    saved = len(pointwise.saved) + len(layout.unweighted)  # that is, all that a step reads
    each_item = math.ceil(2.9 * states + 0.9 * gates + 2.1 * saved)
    each_unit = math.ceil(1.9 * _values_per_unit(pointwise))
    working = 28 + (8 if shape.dtype == "float32" else 0) + pointwise.extra_values("backward")
    return working + 17 * sources + 2 * (rows // 4 * each_item + each_unit)


def _values_per_unit(pointwise: Pointwise) -> int:
    layout = layout_of(pointwise.cell)
    return len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
