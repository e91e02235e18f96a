"""What a call is besides its tensors: the cell, and which results are wanted."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..cellspec.cell import CellSpec
from ..codegen.layout import layout_of
from ..codegen.shape import Save
from .store.facts import facts_of


class Choice(NamedTuple):
    """What a caller chose among the kernels of a GPU: as in `plan_for`."""

    variant: str = "auto"
    save: Save = "gates"


class Call(NamedTuple):
    """A call, besides its tensors.

    Attributes:
        cell: the cell.
        for_backward: whether a backward may follow.
        stored: which states are returned at all steps.
        choice: among the kernels of a GPU.
    """

    cell: CellSpec
    for_backward: bool
    stored: tuple[bool, ...]
    choice: Choice


@lru_cache(maxsize=512)
def cell_of(text: str) -> CellSpec:
    """The cell that an operator's text argument describes."""
    return CellSpec.from_json(text)


@lru_cache(maxsize=512)
def stored_states(cell: str, over_time: tuple[bool, ...], for_backward: bool) -> tuple[bool, ...]:
    """Which states a call returns at all steps.

    Args:
        cell: as JSON.
        over_time: which the caller wants.
        for_backward: whether those that the backward reads are wanted too.
    """
    reads = backward_reads(cell_of(cell))
    return tuple(w or (for_backward and read) for w, read in zip(over_time, reads, strict=True))


@lru_cache(maxsize=512)
def backward_reads(cell: CellSpec) -> tuple[bool, ...]:
    """Which states at all steps the backward needs: those it reads, and the sources of products."""
    layout = layout_of(cell)
    reads = zip(layout.states, facts_of(cell).reads, strict=True)
    return tuple(r or state in layout.sources.values for state, r in reads)
