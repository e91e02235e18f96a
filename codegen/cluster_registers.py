"""How many registers a thread of a cluster kernel needs beside its fragments of R: upper bounds."""

from __future__ import annotations

import math

from ..constrint.expression import Expression
from .derive import Pointwise
from .layout import layout_of
from .shape import Shape


def cluster_forward_registers(pointwise: Pointwise, shape: Shape) -> int:
    """Registers of a thread of the forward kernel, without R.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
    """
    layout = layout_of(pointwise.cell)
    states, gates, saved = len(layout.states), len(layout.gates), len(pointwise.saved)
    tiles = sum(math.ceil(pairs / 2) for pairs in layout.source_pairs)
    split = shape.dtype == "float32"
    return 40 + (20 + 8 * tiles if split else 8 * tiles) + 2 * (states + gates) + saved


def cluster_backward_registers(
    pointwise: Pointwise, shape: Shape, slots: Expression, items: Expression
) -> Expression:
    """Registers of a thread of the backward kernel, without R.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        slots: tiles of a source that a warp multiplies.
        items: (unit, batch row) of a thread.
    """
    layout = layout_of(pointwise.cell)
    states, gates, saved = len(layout.states), len(layout.gates), len(pointwise.saved)
    sources = len(layout.sources)
    each_item = 10 + 3 * states + 2 * gates + saved
    split = 20 if shape.dtype == "float32" else 0
    return 40 + split + 8 * sources * slots + items * each_item
