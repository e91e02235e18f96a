"""Where a cell's gates, states and weights lie in the arrays of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..cellspec.cell import CellSpec


@dataclass(frozen=True)
class Layout:
    """Orders and index tables that a template writes as constants.

    Gates that take input come first, so that their gradients are one slice.

    Attributes:
        gates: gate names in the kernel's order.
        input_gates: the names of the first of them, those with input, in the cell's order.
        states: state names in the cell's order.
        params: param names in the cell's order.
        bias: the gate index of each bias.
        dense_gates: the gate index of each dense matrix.
        dense_sources: the state index of each dense matrix.
        diagonal_gates: the gate index of each diagonal weight.
        diagonal_sources: the state index of each diagonal weight.
    """

    gates: tuple[str, ...]
    input_gates: tuple[str, ...]
    states: tuple[str, ...]
    params: tuple[str, ...]
    bias: tuple[int, ...]
    dense_gates: tuple[int, ...]
    dense_sources: tuple[int, ...]
    diagonal_gates: tuple[int, ...]
    diagonal_sources: tuple[int, ...]


@lru_cache(maxsize=512)
def layout_of(cell: CellSpec) -> Layout:
    """The layout of a cell's kernels."""
    gates = cell.input_gates + tuple(g.name for g in cell.gates if not g.input)
    states = tuple(s.name for s in cell.states)
    return Layout(
        gates=gates,
        input_gates=cell.input_gates,
        states=states,
        params=tuple(p.name for p in cell.params),
        bias=tuple(gates.index(g) for g in cell.bias_gates),
        dense_gates=tuple(gates.index(p.gate) for p in cell.dense_pairs),
        dense_sources=tuple(states.index(p.source) for p in cell.dense_pairs),
        diagonal_gates=tuple(gates.index(p.gate) for p in cell.diagonal_pairs),
        diagonal_sources=tuple(states.index(p.source) for p in cell.diagonal_pairs),
    )
