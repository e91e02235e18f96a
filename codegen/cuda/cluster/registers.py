"""How many registers a thread of a cluster kernel needs beside its fragments of R: upper bounds.

They are the least linear bounds over what the compiler needs, without spills, for 770 plans of
the library's cells (NVRTC 13.0, sm_90a), rounded up; a test compiles every cell against them. All
are in tenths of a register.
"""

from __future__ import annotations

from ....constrint.language.expression import Expression
from ...derive import Pointwise
from ...layout import layout_of
from ...shape import Shape

TENTHS = 10


def cluster_forward_registers(pointwise: Pointwise, shape: Shape, sums: Expression) -> Expression:
    """Tenths of a register of a thread of the forward kernel, without R.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        sums: of a tile, each four registers, that a thread has at once.
    """
    each_sum = 40 if shape.dtype == "float32" else 26
    return 435 + (240 if layout_of(pointwise.cell).sources else 0) + each_sum * sums


def cluster_backward_registers(
    pointwise: Pointwise, shape: Shape, slots: Expression, sums: Expression, items: Expression
) -> Expression:
    """Tenths of a register of a thread of the backward kernel, without R.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        slots: tiles of a source that a warp multiplies.
        sums: of a tile, each four registers, that a thread has at once.
        items: (unit, batch row) of a thread.
    """
    layout = layout_of(pointwise.cell)
    states, params = len(layout.states), len(layout.params)
    # What each source adds to what the pointwise map gives without the peers.
    added = len(layout.sources) * (len(layout.gates) + states + params)
    each_item = 220 + 22 * states + 21 * len(pointwise.saved) + 13 * added
    each_unit = 5 * (len(layout.bias) + params + len(layout.diagonal_gates))
    split = 145 if shape.dtype == "float32" else 0
    return 110 + split + each_unit + 50 * slots + 33 * sums + each_item * items
