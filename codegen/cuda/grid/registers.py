"""How many registers a thread of a grid kernel needs beside its fragments of R: upper bounds.

They bound what the compiler needs, without spills, for 140 kernels of the library's cells (NVRTC
13.0, sm_90); a test compiles cells against them.
"""

from __future__ import annotations

from ...derive import Pointwise
from ...layout import layout_of
from ...shape import Shape

# More of a thread where a part of R is streamed. What the kernel names is four; the others are what
# the compiler spilled without them, of LSTM and GRU from 1 x 1280 to 1 x 3072. Of larger heads, and
# of many items a thread, some kernels still spill, up to 150 bytes.
STREAM_REGISTERS = 80


def forward_registers(pointwise: Pointwise, shape: Shape) -> tuple[int, int]:
    """Registers of a thread of the forward kernel: for itself, and for each of its items.

    Beside them it holds what it gathers and the sums of its tiles.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
    """
    layout = layout_of(pointwise.cell)
    states, gates, saved = len(layout.states), len(layout.gates), len(pointwise.saved)
    values = len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
    working = 24 + (40 if shape.dtype == "float32" else 0) + _padding(shape)
    return working, states + 6 * gates + 3 * saved + values


def backward_registers(pointwise: Pointwise, shape: Shape) -> tuple[int, int]:
    """Registers of a thread of the backward kernel: for itself, and for each of its items.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
    """
    layout = layout_of(pointwise.cell)
    states, gates, saved = len(layout.states), len(layout.gates), len(pointwise.saved)
    values = len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
    working = 18 + (20 if shape.dtype == "float32" else 0) + (20 if gates > 6 else 0)
    working += _padding(shape)
    return working, 3 * states + 4 * gates + 3 * saved + values


def product_registers(shape: Shape, row_tiles: int) -> tuple[int, int]:
    """Registers of a thread for each vector that it gathers, and for each sum of a tile.

    Args:
        shape: gives the dtype.
        row_tiles: tiles of 8 batch rows.
    """
    # float32 has a sum, and the products that are added to it next.
    sums = 8 if shape.dtype == "float32" else 4
    return 4 * row_tiles, sums


def _padding(shape: Shape) -> int:
    """What it takes to know where a row of R ends, and to read those of an odd number of two-byte
    elements by the element.
    """
    row_bytes = shape.head_dim * shape.element_bytes
    return 28 if row_bytes % 4 else 48 if row_bytes % 64 and shape.dtype == "float32" else 0
