"""How many registers a thread of a block kernel needs beside its fragments of R: upper estimates.

They count what lives across a step; the constants were fitted to what the compiler reports for all
cells of the library, where a test holds them against it.
"""

from __future__ import annotations

from ..constrint.expression import Expression
from .derive import Pointwise
from .layout import layout_of

# Addresses, the loop, temporaries of the pointwise function.
_FORWARD_WORKING = 40
_BACKWARD_WORKING = 48


def forward_registers(
    pointwise: Pointwise, groups: Expression, tiles: Expression, rows: int
) -> Expression:
    """Registers of a thread of the forward kernel, without R.

    Args:
        pointwise: of the cell.
        groups: groups of 8 units that a warp owns.
        tiles: tiles of R that a warp multiplies.
        rows: batch rows of a block.
    """
    layout = layout_of(pointwise.cell)
    each_item = len(layout.states) + len(layout.gates) + len(pointwise.saved) + 4
    each_unit = len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
    return _FORWARD_WORKING + 4 * tiles + groups * (rows // 4 * each_item + each_unit)


def backward_registers(pointwise: Pointwise, rows: int) -> int:
    """Registers of a thread of the backward kernel, without R.

    Args:
        pointwise: of the cell.
        rows: batch rows of a block.
    """
    layout = layout_of(pointwise.cell)
    each_item = 2 * len(layout.states) + len(layout.gates) + 4
    each_unit = len(layout.bias) + 2 * (len(layout.params) + len(layout.diagonal_gates))
    return _BACKWARD_WORKING + 16 * len(layout.sources) + 2 * (rows // 4 * each_item + each_unit)
