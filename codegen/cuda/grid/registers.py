"""Upper bounds for the registers per thread of a grid kernel, without those that hold R.

They bound what NVRTC 13.0 needs for sm_90 without spills, for 140 kernels of the library's cells. A
test compiles cells against them.
"""

from __future__ import annotations

import math

from ...derive import Pointwise
from ...layout import Layout, layout_of
from ...shape import Shape
from ..refusal import Margin
from ..stage_tables import StageTables

WIDE_UNIT_GROUPS = 4  # groups of 8 units, from which on a block has many units

# Additional registers per thread if a part of R is streamed. The kernel names four; without the
# rest NVRTC spilled for LSTM and GRU from 1 x 1280 to 1 x 3072. Some kernels of larger heads, or
# with many items per thread, still spill up to 150 bytes.
STREAM_REGISTERS = 80

# The part of the registers per item that kernels of cells with stages need at least, and the part
# that they may lack of those that find the end of a row of R. Of the library they then spill at
# most 120 bytes, most of them those of rows with lengths or resets alone; those that are planned
# to spill 272 (layer_norm_lstm, 632 units).
STAGED_PARTS: dict[Margin, float] = {"kept": 1.0, "without": 0.75, "spills": 0.57}
_STAGED_PADDING: dict[Margin, float] = {"kept": 0.0, "without": 0.5, "spills": 1.0}


def forward_registers(
    pointwise: Pointwise, shape: Shape, tables: StageTables | None = None, tf32: bool = False
) -> tuple[int, int]:
    """Registers per thread of the forward kernel, and registers per item of a thread.

    Gathered vectors and accumulators come in addition.

    Args:
        pointwise: of the cell.
        shape: gives the dtype.
        tables: the stages of a forward.
        tf32: whether float32 is multiplied as TF32.
    """
    layout = layout_of(pointwise.cell)
    working = 24 + (40 if shape.dtype == "float32" else 0) + _padding(shape, tf32)
    working += pointwise.extra_values("forward")
    each_item = len(layout.states) + 6 * len(layout.gates) + 3 * len(pointwise.saved)
    return working, each_item + _values_per_unit(layout) + _between_stages(tables)


def backward_registers(
    pointwise: Pointwise, shape: Shape, tables: StageTables | None = None, tf32: bool = False
) -> tuple[int, int]:
    """The same of the backward kernel."""
    layout = layout_of(pointwise.cell)
    gates = len(layout.gates)
    working = 18 + (20 if shape.dtype == "float32" else 0) + (20 if gates > 6 else 0)
    working += pointwise.extra_values("backward")
    read = len(pointwise.saved) + len(layout.unweighted)
    each_item = 3 * len(layout.states) + 4 * gates + 3 * read
    each_item += _values_per_unit(layout) + _between_stages(tables)
    return working + _padding(shape, tf32), each_item


def _between_stages(tables: StageTables | None) -> int:
    """Registers per item for what a stage leaves for others, and for numbers of a head."""
    if tables is None:
        return 0
    return len(tables.values) + 2 * (len(tables.numbers) + len(tables.statistics))


def _values_per_unit(layout: Layout) -> int:
    """Biases, params and diagonal weights per unit."""
    return len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)


def product_registers(shape: Shape, row_tiles: int) -> tuple[int, int]:
    """Registers per vector that a thread gathers, and registers per accumulator.

    Args:
        shape: gives the dtype.
        row_tiles: tiles of 8 batch rows.
    """
    # float32 has two accumulators: the sum, and the next products to add to it.
    sums = 8 if shape.dtype == "float32" else 4
    return 4 * row_tiles, sums


def wide_padding_registers(shape: Shape, tf32: bool) -> int:
    """Registers per thread to find the end of a row of R in TF32, in blocks of many units.

    Args:
        shape: gives the head dim and the dtype.
        tf32: whether float32 is multiplied as TF32.
    """
    return _padding(shape, False) if tf32 else 0


def staged_margin(shape: Shape, tf32: bool, margin: Margin) -> int:
    """Registers per thread that a kernel of a cell with stages may have below these bounds.

    Args:
        shape: gives the head dim and the dtype.
        tf32: whether float32 is multiplied as TF32.
        margin: of registers; see `Margin`.
    """
    return math.floor(_STAGED_PADDING[margin] * _padding(shape, tf32))


def _padding(shape: Shape, tf32: bool) -> int:
    """Registers to find the end of a row of R, and to read rows of an odd number of two-byte
    elements one element at a time.
    """
    row_bytes = shape.head_dim * shape.element_bytes
    if row_bytes % 4:
        return 28
    # The products of TF32 leave enough registers free, except in blocks of many units.
    return 48 if row_bytes % 64 and shape.dtype == "float32" and not tf32 else 0
