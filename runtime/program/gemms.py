"""Matrix products over all steps at once: gates from states, and the gradient of all matrices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.layout import Product, layout_of
from ...codegen.shape import Reverse
from ...codegen.spaces import Table
from ..call.facts import Called, facts_of
from ..call.tensors import Saved, SomeTensors
from .multiplier import TORCH, Multiplier, room_for, spans_of, sum_parts


def gates_again(
    cell: CellSpec, saved: Saved, multiplier: Multiplier, reverse: Reverse = False
) -> Tensor:
    """Compute the pre-activations that the backward reads from states, by a product per matrix.

    `saved` is of a forward that saved states alone. A state that neither R nor a diagonal weight
    reads may be empty. The result is (T, B, N, D, saved), in the order of the facts' saved_gates.
    """
    layout, names = layout_of(cell), facts_of(cell).saved_gates
    wx, R, b, R_diag = saved.wx, saved.R, saved.b, saved.R_diag
    batch, steps, heads, dim, _ = wx.shape
    gates = wx.new_zeros(steps, batch, heads, dim, len(names))
    column = {layout.gates.at(name): i for i, name in enumerate(names)}
    for index in layout.input_gates:
        gate = layout.gates.at(layout.input_gates[index])
        if gate in column:
            gates[..., column[gate]] = wx[..., index.number].transpose(0, 1)
    if b is not None:
        for bias, gate in layout.bias.items():
            if gate in column:
                gates[..., column[gate]] += b[bias.number]
    previous = [
        states_before(first, s, reverse) if len(s) else s
        for first, s in zip(saved.initial_states, saved.states, strict=True)
    ]
    before = Table(layout.states, tuple(previous))
    for matrix in layout.pair_matrices:
        gate, source = layout.dense_gates[matrix], layout.dense_sources[matrix]
        if gate in column and steps:
            assert R is not None
            factors = before[source].view(steps * batch, heads, dim).transpose(0, 1)
            product = multiplier.mm(factors, R[matrix.number].transpose(1, 2))  # (N, T * B, D)
            gates[..., column[gate]] += product.transpose(0, 1).reshape(steps, batch, heads, dim)
    for row in layout.diagonal_order:
        gate, source = layout.diagonal_gates[row], layout.diagonal_sources[row]
        if gate in column and steps:
            assert R_diag is not None
            gates[..., column[gate]] += R_diag[row.number] * before[source]
    return gates


def states_before(initial_state: Tensor, states: Tensor, reverse: Reverse) -> Tensor:
    """Return the state before each step, (T, B, N, D)."""
    if reverse == "half":
        found = torch.empty_like(states)
        for heads, order in both_directions(states.shape[2]):
            own = initial_state[:, heads], states[:, :, heads]
            found[:, :, heads] = states_before(*own, order)
        return found
    first = initial_state[None]
    return torch.cat([states[1:], first] if reverse else [first, states[:-1]])


def both_directions(heads: int) -> tuple[tuple[slice, Reverse], tuple[slice, Reverse]]:
    """Return the heads of each direction of a layer in one call, and its order of time."""
    half = heads // 2
    return (slice(half), False), (slice(half, heads), True)


def sums_over_time(
    rows: Tensor,
    initial_state: Tensor | None,
    states: Tensor,
    multiplier: Multiplier = TORCH,
    reverse: Reverse = False,
    to: Tensor | None = None,
) -> Tensor:
    """Return partial sums over steps and batch of a row times the state before its step, per head.

    In float32 the sum is taken in parts, since short sums have smaller rounding errors. Products
    add steps in the order of memory, whichever step ran first. Rows are (T * B, N, K), of at least
    one step, and states (T, B, N, D). The initial state is (B, N, D), or None if it is zero. The
    result is (parts, N, K, D): a new tensor, or `to`. A `to` of one part holds the whole sum.
    """
    steps, batch, heads, dim = states.shape
    others = (steps - 1) * batch  # rows of all steps but the one that ran first
    first = 0 if initial_state is None else 1
    spans = spans_of(others, rows.dtype, multiplier)
    if not first and not spans:
        return rows.new_zeros(1, heads, rows.shape[2], dim) if to is None else to.zero_()
    found = room_for(rows, first, spans, dim) if to is None else to
    whole = ((slice(heads), reverse),)
    for own, order in both_directions(heads) if reverse == "half" else whole:
        sums, factors, over_time = found[:, own], rows[:, own], states[:, :, own]
        if order:
            first_rows, later, previous = factors[others:], factors[:others], over_time[1:]
        else:
            first_rows, later, previous = factors[:batch], factors[batch:], over_time[:-1]
        if initial_state is not None:
            before = initial_state[:, own].transpose(0, 1)
            multiplier.mm_into(sums[0], first_rows.permute(1, 2, 0), before)
        previous = previous.reshape(others, *previous.shape[2:])
        sum_parts(sums, first, later, previous, spans, multiplier)
    return found


def recurrent_sums(
    d_R: Tensor,
    products: tuple[Product, ...],
    d_wx: Tensor,
    d_gates_no_input: Tensor,
    states: Sequence[Tensor],
    initial_states: SomeTensors,
    multiplier: Multiplier,
    reverse: Reverse = False,
) -> list[tuple[Tensor, Tensor]]:
    """Return d_R[gate] = d_gate s_{t-1} over time and batch as work that is left: parts, and sums.

    Each part of d_R, (Gr, N, D out, D in), is the sum of partial sums (parts, …), of a GEMM per
    head, source and tensor. Gradients of gates are (T, B, N, D, Gx), and of those without input (T,
    B, N, D, G - Gx). States that no R multiplies may be empty; initial ones are None where they are
    known to be zero.
    """
    steps, batch, heads, dim, _ = d_wx.shape
    if not steps:
        d_R.zero_()
        return []
    left: list[tuple[Tensor, Tensor]] = []
    for of_input, state, pairs, whole in products:
        d_gates = d_wx if of_input else d_gates_no_input
        count = d_gates.shape[-1]
        rows = d_gates.view(steps * batch, heads, dim * count)
        sums = sums_over_time(rows, initial_states[state], states[state], multiplier, reverse)
        sums = sums.view(len(sums), heads, dim, count, dim)
        if whole:
            return [(d_R, sums.permute(0, 3, 1, 2, 4))]
        left.extend((d_R[matrix], sums[:, :, :, column]) for matrix, column in pairs)
    return left


_MOST_COLUMNS = 2**12  # of products with all saved values, for each unit of a gate


def called_sums(
    d_R: Tensor,
    called: Sequence[Called],
    d_wx: Tensor,
    d_gates_no_input: Tensor,
    saved: Tensor,
    multiplier: Multiplier,
) -> list[tuple[Tensor, Tensor]]:
    """Return d_R[gate] = d_gate y over time and batch, where a called gate multiplies y.

    Arguments and result are as in `recurrent_sums`; `saved`, (T, B, N, D, saved), has the values y.
    """
    steps, batch, heads, dim, inputs = d_wx.shape
    rows, left = steps * batch, list[tuple[Tensor, Tensor]]()
    if not rows:
        for each in called:
            d_R[each.matrix].zero_()
        return left
    spans, values = spans_of(rows, d_wx.dtype, multiplier), saved.shape[-1]
    multiplied: dict[int, Tensor] = {}  # by place, without gaps
    for first, d_gates in (0, d_wx), (inputs, d_gates_no_input):
        count = d_gates.shape[-1]
        own = [each for each in called if first <= each.gate < first + count]
        if own and _faster_at_once(d_wx.dtype, count * values * dim):
            every = d_gates.view(rows, heads, dim * count), saved.view(rows, heads, dim * values)
            sums = room_for(every[0], 0, spans, dim * values)
            sum_parts(sums, 0, *every, spans, multiplier)
            apart = sums.view(len(sums), heads, dim, count, dim, values)
            left += [(d_R[m], apart[:, :, :, gate - first, :, i]) for m, gate, i in own]
            continue
        for matrix, gate, place in own:
            if place not in multiplied:
                multiplied[place] = saved[..., place].reshape(rows, heads, dim)
            d_gate = d_gates[..., gate - first].reshape(rows, heads, dim)
            sums = room_for(d_gate, 0, spans, dim)
            sum_parts(sums, 0, d_gate, multiplied[place], spans, multiplier)
            left.append((d_R[matrix], sums))
    return left


def _faster_at_once(dtype: torch.dtype, columns: int) -> bool:
    """Return True if products of all gates with all saved values take less than copies of some.

    A library multiplies neighbouring elements alone, and those of a gate are apart. The columns are
    those of the result per unit.
    """
    return dtype.itemsize == 2 and columns <= _MOST_COLUMNS
