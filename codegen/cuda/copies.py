"""Copies of a step's rows in shared memory: their sizes, as templates/cuda/lib/copy has them."""

from __future__ import annotations

import math

from ...cellspec.cell import CellSpec
from ...constrint.language.expression import Expression
from ..derive import derive
from ..layout import states_read_before
from ..shape import ELEMENT_BYTES, Dtype
from .kernel_plan import KernelPlan

#: The least that cp.async copies.
WORD_BYTES = 4


def restart_words(steps: int) -> int:
    """Words that say before which steps rows restart, as lib/kernels/walk/restarts.cuh has them.

    Args:
        steps: that follow each other, a byte each; the first may lie anywhere in a word.
    """
    return (steps + 6) // 4


def row_pitch(elements: int, units: int, dtype: Dtype) -> int:
    """Bytes of a row that a block copies to shared memory; the padding avoids bank conflicts.

    Args:
        elements: per unit.
        units: per row.
        dtype: of the elements.
    """
    unit = elements * ELEMENT_BYTES[dtype]
    return 128 * math.ceil(units * unit / 128) + 16 * math.ceil(4 * unit / 16)


def warp_pitch(elements: int, units: int, dtype: Dtype) -> int:
    """Bytes of a row that a warp copies to shared memory; the padding avoids bank conflicts.

    Args:
        elements: per unit.
        units: per row.
        dtype: of the elements.
    """
    span = elements * units * ELEMENT_BYTES[dtype]
    if not elements:
        return 0
    return 16 if span <= 16 else 32 * math.ceil(span / 32) + 16


def unweighted_bytes(
    cell: CellSpec, rows: Expression | int, words: Expression | int
) -> Expression | int:
    """Bytes that threads copy of a step's inputs of the cell that no weight multiplies.

    Args:
        cell: the cell.
        rows: of one input, if rows are copied: then calls draw all inputs.
        words: of one input, if each value is copied to a word of its own.
    """
    return (rows if cell.draws_all_inputs else words) * len(cell.inputs)


def states_needed(cell: CellSpec, plan: KernelPlan) -> int:
    """Return how many states of a row a kernel needs after a reset.

    Args:
        cell: the cell.
        plan: of the kernel; a backward needs the states that it reads before each step.
    """
    if plan.direction == "forward":
        return len(cell.states)
    return sum(states_read_before(derive(cell, activations=plan.save == "gates")))
