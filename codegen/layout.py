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
        sources: the state index of each state that a dense gate reads, once.
        source_pairs: how many dense pairs (gate, source) each of them has.
        source_first_pair: where they begin among the pairs in the order of sources.
        pair_gates: the gate index of each pair in that order.
        pair_matrices: which dense matrix it is.
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
    sources: tuple[int, ...]
    source_pairs: tuple[int, ...]
    source_first_pair: tuple[int, ...]
    pair_gates: tuple[int, ...]
    pair_matrices: tuple[int, ...]


@lru_cache(maxsize=512)
def layout_of(cell: CellSpec) -> Layout:
    """The layout of a cell's kernels."""
    gates = cell.input_gates + tuple(g.name for g in cell.gates if not g.input)
    states = tuple(s.name for s in cell.states)
    dense_gates = tuple(gates.index(p.gate) for p in cell.dense_pairs)
    dense_sources = tuple(states.index(p.source) for p in cell.dense_pairs)
    sources = tuple(sorted(set(dense_sources)))
    pairs = [i for source in sources for i, s in enumerate(dense_sources) if s == source]
    counts = [dense_sources.count(source) for source in sources]
    return Layout(
        gates=gates,
        input_gates=cell.input_gates,
        states=states,
        params=tuple(p.name for p in cell.params),
        bias=tuple(gates.index(g) for g in cell.bias_gates),
        dense_gates=dense_gates,
        dense_sources=dense_sources,
        diagonal_gates=tuple(gates.index(p.gate) for p in cell.diagonal_pairs),
        diagonal_sources=tuple(states.index(p.source) for p in cell.diagonal_pairs),
        sources=sources,
        source_pairs=tuple(counts),
        source_first_pair=tuple(sum(counts[:i]) for i in range(len(counts))),
        pair_gates=tuple(dense_gates[i] for i in pairs),
        pair_matrices=tuple(pairs),
    )
