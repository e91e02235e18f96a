"""How many registers a thread of a block kernel needs beside its fragments of R: upper bounds.

They are the least linear bounds over what the compiler needs, without spills, for 225 plans of the
library's cells (NVRTC 13.0, sm_90a), rounded up; a test compiles every cell against them.
"""

from __future__ import annotations

import math

from ....constrint.language.expression import Expression
from ...derive import Pointwise
from ...layout import layout_of
from ...shape import Shape


def forward_registers(
    pointwise: Pointwise, shape: Shape, groups: Expression, tiles: Expression, rows: int
) -> Expression:
    """Registers of a thread of the forward kernel, without R.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        groups: groups of 8 units that a warp owns.
        tiles: tiles of R that a warp multiplies.
        rows: batch rows of a block.
    """
    layout = layout_of(pointwise.cell)
    states, gates, saved = len(layout.states), len(layout.gates), len(pointwise.saved)
    each_item = math.ceil(2 + 0.2 * states + gates + 0.7 * saved)
    each_unit = math.ceil(1.3 * _values_of_a_unit(pointwise))
    # float32 is split into two numbers on its way to the matrix instructions.
    split = shape.dtype == "float32"
    working, each_tile = (74, 14) if split else (30, 6)
    return working + each_tile * tiles + groups * (rows // 4 * each_item + each_unit)


def backward_registers(pointwise: Pointwise, shape: Shape, rows: int) -> int:
    """Registers of a thread of the backward kernel, without R.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        rows: batch rows of a block.
    """
    layout = layout_of(pointwise.cell)
    states, gates, saved = len(layout.states), len(layout.gates), len(pointwise.saved)
    each_item = math.ceil(2.9 * states + 0.9 * gates + 2.1 * saved)
    each_unit = math.ceil(1.9 * _values_of_a_unit(pointwise))
    working = 28 + (8 if shape.dtype == "float32" else 0)
    return working + 17 * len(layout.sources) + 2 * (rows // 4 * each_item + each_unit)


def _values_of_a_unit(pointwise: Pointwise) -> int:
    layout = layout_of(pointwise.cell)
    return len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
