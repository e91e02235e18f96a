"""Products of recurrent matrices by torch: those of a single step, and the gradient of R."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.shape import Reverse
from ..call.facts import Called, facts_of
from ..program.gemms import both_directions, sums_over_time
from ..program.multiplier import TORCH, spans_of, sum_parts
from .inputs import linear


def recurrent_product(
    cell: CellSpec, R: Tensor, states: Sequence[Tensor], layer: int
) -> tuple[Tensor, tuple[int, int, int]]:
    """Multiply each recurrent matrix with the state that it reads, for one step of one layer.

    R is as in `ScanInputs`, each matrix contiguous. The states are (layers, B, N * D) each,
    contiguous. The result is the products, and their strides of batch, matrix and head; units are
    adjacent.
    """
    pairs, heads, dim, _ = R.shape
    facts, batch = facts_of(cell), states[0].shape[1]
    if heads == 1 and len(facts.counts.sources) == 1:
        product = linear(states[facts.runs[0].state][layer], R.view(pairs * dim, dim))
        return product, (pairs * dim, dim, 0)
    product = R.new_empty(pairs, heads, batch, dim)
    for run in facts.runs:
        state = states[run.state][layer].view(batch, heads, dim).transpose(0, 1)
        for matrix in range(run.matrix, run.matrix + run.many):
            torch.bmm(state, R[matrix].transpose(1, 2), out=product[matrix])
    return product, (dim, heads * batch * dim, batch * dim)


def matrices_of(R: Tensor, heads: int, dim: int) -> Tensor:
    """Return a view as in `ScanInputs` of R, whose rows are in the order head, gate, unit."""
    if heads == 1:
        return R.view(-1, 1, dim, dim)
    return R.view(heads, -1, dim, dim).transpose(0, 1)


class StateGradients(Sequence[Tensor]):
    """Gradients of the states before a single step.

    The part that comes through matrices is added when one of them is read: nobody reads them where
    the caller gave no states.
    """

    def __init__(
        self, cell: CellSpec, R: Tensor, d_gates: Tensor, d_states: Sequence[Tensor]
    ) -> None:
        self._d_states = d_states
        self._products: tuple[CellSpec, Tensor, Tensor] | None = (cell, R, d_gates)

    def __len__(self) -> int:
        return len(self._d_states)

    def __getitem__(self, index: Any) -> Any:
        if self._products is not None:
            add_recurrent_gradient_of_states(*self._products, self._d_states)
            self._products = None
        return self._d_states[index]


def add_recurrent_gradient_of_states(
    cell: CellSpec, R: Tensor, d_gates: Tensor, d_states: Sequence[Tensor]
) -> None:
    """Add to the gradient of each state the part that comes through matrices, for one step.

    R is as in `ScanInputs`, each matrix contiguous. `d_gates` is (B, N, G, D), contiguous.
    `d_states`, (B, N, D) each, contiguous, are changed in place.
    """
    batch, heads, gates, dim = d_gates.shape
    for state, gate, matrix, many in facts_of(cell).runs:
        if heads == 1:
            columns = d_gates.view(batch, gates * dim)[:, gate * dim : (gate + many) * dim]
            rows = R.view(-1, dim)[matrix * dim : (matrix + many) * dim]
            d_states[state].view(batch, dim).addmm_(columns, rows)
            continue
        d_state = d_states[state].transpose(0, 1)
        for i in range(many):
            d_state.baddbmm_(d_gates[:, :, gate + i].transpose(0, 1), R[matrix + i])


def recurrent_gradient(
    cell: CellSpec,
    d_gates: Tensor,
    states: Sequence[Tensor],
    initial_states: Sequence[Tensor],
    reverse: Reverse,
    zero: tuple[bool, ...] = (),
) -> Tensor:
    """Return d_R[gate] = sum over time and batch of d_gate s_{t-1}, (Gr, N, D out, D in).

    Over several steps each matrix is a product of its own, so that a library's rounding does not
    depend on the order of gates. Products add steps in the order of memory, whichever step ran
    first. `d_gates` is (T, B, N, G, D), contiguous, or some heads of such a tensor. States are (T,
    B, N, D), none for a single step, and (B, N, D) before it, likewise. `zero` says which of the
    latter are known to be zero; it is empty if none is.
    """
    if reverse == "half":  # apart: what a library rounds depends on where its results lie
        found = []
        for own, order in both_directions(d_gates.shape[2]):
            read = [s[:, :, own] for s in states], [s[:, own] for s in initial_states]
            found.append(recurrent_gradient(cell, d_gates[:, :, own], *read, order, zero))
        return torch.cat(found, 1)
    runs = facts_of(cell).runs
    steps, batch, heads, gates, dim = d_gates.shape
    count = len(cell.dense_pairs)
    only_first = steps == 1 and bool(zero) and all(zero[run.state] for run in runs)
    if not (runs and steps and batch) or only_first:
        return d_gates.new_zeros(count, heads, dim, dim)
    if steps == 1 and heads == 1 and not any(zero):
        columns, flat = d_gates.view(batch, gates * dim), d_gates.new_empty(count * dim, dim)
        for state, gate, matrix, many in runs:
            torch.mm(
                columns[:, gate * dim : (gate + many) * dim].t(),
                initial_states[state].view(batch, dim),
                out=flat[matrix * dim : (matrix + many) * dim],
            )
        return flat.view(count, 1, dim, dim)
    d_R = d_gates.new_empty(count, heads, dim, dim)
    rows = d_gates.view(steps * batch, heads, gates, dim)
    for state, gate, matrix, many in runs:
        before = initial_states[state]
        after = states[state] if steps > 1 else before[None]
        if heads == 1:  # all gates of a run at once, in place of heads
            parts = [(d_R[matrix : matrix + many, 0], rows[:, 0, gate : gate + many])]
        else:
            parts = [(d_R[matrix + i], rows[:, :, gate + i]) for i in range(many)]
        for to, columns in parts:
            first = None if zero and zero[state] else before.expand(-1, len(to), -1)
            over_time = after.expand(-1, -1, len(to), -1)
            sums_over_time(columns, first, over_time, reverse=reverse, to=to[None])
    return d_R


def add_gradients_of_called(
    called: Sequence[Called], d_R: Tensor, d_gates: Tensor, kept: Tensor
) -> None:
    """Write d_R[gate] = sum over time and batch of d_gate y, where a called gate multiplies y.

    `d_R` takes the result, (Gr, N, D out, D in). `d_gates` is (T, B, N, G, D), contiguous, and
    `kept` what the forward kept, (T, B, N, …), with the values y.
    """
    steps, batch, heads, _, dim = d_gates.shape
    rows = steps * batch
    spans = spans_of(rows, d_gates.dtype, TORCH)
    for matrix, gate, place in called:
        left = d_gates[:, :, :, gate].reshape(rows, heads, dim)
        values = kept.view(rows, heads, kept.shape[3])[:, :, place * dim : (place + 1) * dim]
        sum_parts(d_R[matrix][None], 0, left, values, spans, TORCH)
