"""What the cost model reads besides a plan, and the terms that several kinds of plans share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ...cellspec.cell import CellSpec
from ..derive import Pointwise, derive
from ..shape import Direction, Shape
from .constants import GpuConstants, constants_for
from .limits import Limits
from .mma import FRAGMENT_REGISTERS


@dataclass(frozen=True)
class CostInputs:
    """What the cost model reads of a cell, a shape and a GPU.

    Attributes:
        pointwise: the equations of the cell.
        shape: all of it but the steps matters.
        limits: the GPU.
        constants: of the GPU.
    """

    pointwise: Pointwise
    shape: Shape
    limits: Limits
    constants: GpuConstants

    @classmethod
    def of(cls, cell: CellSpec, shape: Shape, limits: Limits) -> Self:
        """The inputs with the constants for a GPU.

        Args:
            cell: the cell.
            shape: sizes and dtype.
            limits: the GPU.
        """
        return cls(derive(cell), shape, limits, constants_for(limits))

    @property
    def float32_factor(self) -> float:
        """How many times as long a product takes as one of two-byte elements."""
        return self.constants.chip.float32 if self.shape.dtype == "float32" else 1

    def operations(self, direction: Direction) -> int:
        """The number of operations in the cell's equations.

        Args:
            direction: which of the two directions.
        """
        return self.pointwise.program(direction).operations

    def register_product(self, matrix_registers: int, warps: int) -> float:
        """The time of a product whose R is in registers: one instruction per fragment and warp.

        Args:
            matrix_registers: registers per thread that hold R.
            warps: per scheduler.
        """
        chip = self.constants.chip
        cycles = warps * matrix_registers / FRAGMENT_REGISTERS * chip.matrix
        return cycles / chip.clock * self.float32_factor

    def traffic(self) -> float:
        """The time of a step's reads and writes of inputs, states and saved values.

        It is the same for every plan.
        """
        shape, cell = self.shape, self.pointwise.cell
        elements = shape.batch * shape.heads * shape.head_dim * shape.element_bytes
        values = len(cell.gates) + len(cell.states) + len(self.pointwise.saved)
        return elements * values / self.constants.chip.memory_bandwidth
