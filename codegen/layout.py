"""Where a cell's gates, states and weights lie in the arrays of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from .derive import Pointwise


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
        saved: the gate index of each pre-activation that the backward needs.
        state_is_read: for each state, whether the backward reads its previous or new values.
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
    saved: tuple[int, ...]
    state_is_read: tuple[bool, ...]


def layout_of(pointwise: Pointwise) -> Layout:
    """The layout of a cell's kernels.

    Args:
        pointwise: the derived maps, for what the backward needs.
    """
    cell = pointwise.cell
    gates = cell.input_gates + tuple(g.name for g in cell.gates if not g.input)
    states = tuple(s.name for s in cell.states)
    diagonal_sources = tuple(states.index(p.source) for p in cell.diagonal_pairs)
    return Layout(
        gates=gates,
        input_gates=cell.input_gates,
        states=states,
        params=tuple(p.name for p in cell.params),
        bias=tuple(gates.index(g) for g in cell.bias_gates),
        dense_gates=tuple(gates.index(p.gate) for p in cell.dense_pairs),
        dense_sources=tuple(states.index(p.source) for p in cell.dense_pairs),
        diagonal_gates=tuple(gates.index(p.gate) for p in cell.diagonal_pairs),
        diagonal_sources=diagonal_sources,
        saved=tuple(gates.index(g) for g in pointwise.saved),
        # The gradient of a diagonal weight is a product with its source's previous value.
        state_is_read=tuple(
            s in pointwise.reads or f"{s}_next" in pointwise.reads or i in diagonal_sources
            for i, s in enumerate(states)
        ),
    )
