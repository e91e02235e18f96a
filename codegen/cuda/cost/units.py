"""Reads and writes of kernels of cells without dense matrices, for their cost models."""

from __future__ import annotations

from ...layout import layout_of, states_read_before
from ...shape import Direction
from .inputs import CostInputs


def values_moved(inputs: CostInputs, direction: Direction) -> int:
    """The numbers of a step of a unit that a direction reads and writes.

    A forward stores nothing but states, and a backward reads the inputs of gates again.

    Args:
        inputs: of the cell, the shape and the GPU.
        direction: which of the two.
    """
    pointwise = inputs.pointwise
    layout = layout_of(pointwise.cell)
    given = len(layout.input_gates) + len(layout.unweighted)
    if direction == "forward":
        return given + len(layout.states)
    return given + len(layout.gradients) + sum(states_read_before(pointwise)) + 1


def unit_traffic(inputs: CostInputs, direction: Direction) -> float:
    """The time of a step's reads and writes, where rows end early the mean of all steps.

    Args:
        inputs: of the cell, the shape and the GPU.
        direction: which of the two.
    """
    shape = inputs.shape
    each = shape.batch * shape.heads * shape.head_dim * shape.element_bytes * shape.fill
    return each * values_moved(inputs, direction) / inputs.constants.chip.memory_bandwidth
