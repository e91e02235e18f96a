"""Upper bounds for the registers per thread of a cluster kernel, without those that hold R.

They are linear bounds, fitted to what NVRTC 13.0 needs for sm_90a without spills, for 770 plans of
the library's cells, and rounded up. A test compiles every cell against them. All are in tenths of a
register.
"""

from __future__ import annotations

from ....constrint.language.expression import Expression
from ...derive import Pointwise
from ...layout import layout_of
from ...shape import Direction, Shape
from ..stage_tables import StageTables

TENTHS = 10
# Registers per thread that kernels of cells with stages may have below these bounds. Of the library
# they then spill at most 164 bytes, most of them those of rows with lengths or resets alone.
_STAGED_MARGINS: dict[Direction, tuple[int, int]] = {"forward": (8, 72), "backward": (40, 24)}


def cluster_forward_registers(
    pointwise: Pointwise, shape: Shape, sums: Expression | int
) -> Expression | int:
    """Tenths of a register per thread of the forward kernel.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        sums: accumulators per thread, of four registers each.
    """
    each_sum = 40 if shape.dtype == "float32" else 26
    working = 435 + TENTHS * pointwise.extra_values("forward")
    return working + (240 if layout_of(pointwise.cell).sources else 0) + each_sum * sums


def cluster_backward_registers(
    pointwise: Pointwise, shape: Shape, slots: Expression, sums: Expression, items: Expression
) -> Expression:
    """Tenths of a register per thread of the backward kernel.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        slots: tiles of a source per warp.
        sums: accumulators per thread, of four registers each.
        items: units of batch rows per thread.
    """
    layout = layout_of(pointwise.cell)
    states, params = len(layout.states), len(layout.params)
    # Each source adds to the gradients that the pointwise map gives.
    added = len(layout.sources) * (len(layout.gates) + states + params)
    read = len(pointwise.saved) + len(layout.unweighted)
    each_item = 220 + 22 * states + 21 * read + 13 * added
    each_unit = 5 * (len(layout.bias) + params + len(layout.diagonal_gates))
    split = 145 if shape.dtype == "float32" else 0
    working = 110 + split + TENTHS * pointwise.extra_values("backward")
    return working + each_unit + 50 * slots + 33 * sums + each_item * items


def staged_margin(direction: Direction, shape: Shape) -> int:
    """Tenths of a register per thread that a kernel of a cell with stages may have below the bound.

    Args:
        direction: which of the two kernels.
        shape: gives the dtype.
    """
    return TENTHS * _STAGED_MARGINS[direction][shape.dtype == "float32"]


def stage_registers(tables: StageTables, shape: Shape) -> int:
    """Tenths of a register per thread that a kernel of a cell with stages needs besides.

    With the bounds above none of the plans of seven such cells spills that NVRTC 13.0 compiled.

    Args:
        tables: the stages of a direction.
        shape: gives the dtype.
    """
    left, exact = len(tables.values) + len(tables.computed), shape.dtype == "float32"
    if tables.direction == "backward":
        return 60 + 3 * left + (120 if exact else 0)
    # Each of the gates that multiply one value adds sums to those of the states.
    widest = max((len(s.pairs) for s in tables.sources if s.state < 0), default=1)
    return 100 + TENTHS * left + (220 * widest if exact else 0)
