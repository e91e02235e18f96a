"""Inputs of the cost model besides a plan, and the terms that several kinds of plans share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from ....cellspec.cell import CellSpec
from ...derive import Pointwise, derive
from ...hoisting import hoisted
from ...shape import Direction, Shape
from ..limits import Limits
from .constants import GpuConstants, PerDirection
from .fitted import constants_for


@dataclass(frozen=True)
class CostInputs:
    """Facts of a cell, a shape and a GPU that the cost model reads.

    Attributes:
        pointwise: the equations of the cell.
        shape: all of it but the steps matters.
        limits: the GPU.
        constants: of the GPU.
        tf32: whether float32 products round to tf32.
    """

    pointwise: Pointwise
    shape: Shape
    limits: Limits
    constants: GpuConstants
    tf32: bool = False

    @classmethod
    def of(cls, cell: CellSpec, shape: Shape, limits: Limits, tf32: bool = False) -> Self:
        """The inputs with the constants for a GPU.

        Args:
            cell: the cell.
            shape: sizes and dtype.
            limits: the GPU.
            tf32: whether float32 products round to tf32.
        """
        return cls(derive(cell), shape, limits, constants_for(limits), tf32)

    @property
    def float32_factor(self) -> float:
        """Time of a product as a multiple of one of two-byte elements, or of one in TF32."""
        return self.constants.chip.float32 if self.shape.dtype == "float32" and not self.tf32 else 1

    def equations(
        self, direction: Direction, operation: PerDirection, exact: PerDirection | None = None
    ) -> float:
        """The time of the cell's equations for one item.

        Args:
            direction: which of the two directions.
            operation: per operation.
            exact: its factor in float32; None for 1.
        """
        factor = exact.of(direction) if exact and self.shape.dtype == "float32" else 1
        operations = _operations(self.pointwise.cell, direction)
        return operations * operation.of(direction) * factor

    @property
    def gates_without_input(self) -> int:
        """The number of gates whose gradient is not that of an input."""
        cell = self.pointwise.cell
        return len(cell.gates) - len(cell.input_gates)

    def traffic(self) -> float:
        """The time of a step's reads and writes of inputs, states and saved values.

        It is the same for every plan. Where rows end early, it is the mean of all steps.
        """
        shape, cell = self.shape, self.pointwise.cell
        elements = shape.batch * shape.heads * shape.head_dim * shape.element_bytes
        values = len(cell.gates) + len(cell.states) + len(self.pointwise.saved)
        return elements * values * shape.fill / self.constants.chip.memory_bandwidth


@lru_cache(maxsize=512)
def _operations(cell: CellSpec, direction: Direction) -> int:
    """Those of a step. What follows from constants alone, as `1 - p` of a mean, costs nothing."""
    program, constants = derive(cell).program(direction), [c.name for c in cell.constants]
    return (hoisted(program, constants, ()).program if constants else program).operations
