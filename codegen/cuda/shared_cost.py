"""Parts of the estimated time per step that several kinds of plans share."""

from __future__ import annotations

from ..derive import Pointwise
from ..shape import Dtype, Shape
from .constants import ChipConstants
from .mma import FRAGMENT_REGISTERS


def product_nanoseconds(
    matrix_registers: int, warps: int, dtype: Dtype, chip: ChipConstants
) -> float:
    """The time of a product whose R is in registers: one instruction per fragment and warp.

    Args:
        matrix_registers: registers per thread that hold R.
        warps: per scheduler.
        dtype: of R.
        chip: the constants.
    """
    cycles = warps * matrix_registers / FRAGMENT_REGISTERS * chip.matrix
    return cycles / chip.clock * (chip.float32 if dtype == "float32" else 1)


def traffic_nanoseconds(pointwise: Pointwise, shape: Shape, chip: ChipConstants) -> float:
    """The time of a step's reads and writes of inputs, states and saved values.

    It is the same for every plan.

    Args:
        pointwise: of the cell.
        shape: all of it but the steps matters.
        chip: the constants.
    """
    elements = shape.batch * shape.heads * shape.head_dim * shape.element_bytes
    values = len(pointwise.cell.gates) + len(pointwise.cell.states) + len(pointwise.saved)
    return elements * values / chip.memory_bandwidth
