"""What a backward computes over all steps at once, with torch's products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.layout import Layout, layout_of
from ..codegen.spaces import Table
from .store.facts import facts_of

# Of a sum in float32: rows of a part, and how many there are. A launch each, some microseconds.
_SHORTEST_PART = 128
_MOST_PARTS = 16


def gates_again(
    cell: CellSpec,
    wx: Tensor,
    b: Tensor | None,
    R: Tensor | None,
    R_diag: Tensor | None,
    initial: Sequence[Tensor],
    states: Sequence[Tensor],
) -> Tensor:
    """The pre-activations that the backward reads, from states: a product a matrix.

    Args:
        cell: the cell.
        wx: (B, T, N, D, Gx).
        b: (Gb, N, D), or None for no bias.
        R: (Gr, N, D, D), where the cell has dense gates.
        R_diag: (Gd, N, D), where it has diagonal gates.
        initial: the states before the first step, (B, N, D) each.
        states: at all steps, (T, B, N, D); empty where neither R nor a diagonal weight reads it.

    Returns:
        (T, B, N, D, saved), in the order of the facts' saved_gates.
    """
    layout = layout_of(cell)
    saved = facts_of(cell).saved_gates
    batch, steps, heads, dim, _ = wx.shape
    gates = wx.new_zeros(steps, batch, heads, dim, len(saved))
    place = {layout.gates.at(name): i for i, name in enumerate(saved)}
    for column in layout.input_gates:
        gate = layout.gates.at(layout.input_gates[column])
        if gate in place:
            gates[..., place[gate]] = wx[..., column.number].transpose(0, 1)
    if b is not None:
        for bias, gate in layout.bias.items():
            if gate in place:
                gates[..., place[gate]] += b[bias.number]
    previous = [
        torch.cat([first[None], s[:-1]]) if len(s) else s
        for first, s in zip(initial, states, strict=True)
    ]
    before = Table(layout.states, tuple(previous))
    for matrix in layout.pair_matrices:
        gate, source = layout.dense_gates[matrix], layout.dense_sources[matrix]
        if gate in place and steps:
            assert R is not None
            factors = before[source].view(steps * batch, heads, dim).transpose(0, 1)
            product = torch.bmm(factors, R[matrix.number].transpose(1, 2))  # (N, T * B, D)
            gates[..., place[gate]] += product.transpose(0, 1).reshape(steps, batch, heads, dim)
    for row in layout.diagonal_order:
        gate, source = layout.diagonal_gates[row], layout.diagonal_sources[row]
        if gate in place and steps:
            assert R_diag is not None
            gates[..., place[gate]] += R_diag[row.number] * before[source]
    return gates


def summed_over_time(rows: Tensor, initial: Tensor, states: Tensor) -> Tensor:
    """The sum over steps and batch of a row times the state before its step, a product a head.

    In float32 it is taken in parts: rounding errors of a long sum add up, those of short ones less.

    Args:
        rows: (T * B, N, K), at least one step.
        initial: the state before the first step, (B, N, D).
        states: at all steps, (T, B, N, D).

    Returns:
        (N, K, D).
    """
    steps, batch, heads, dim = states.shape
    previous = states[:-1].reshape((steps - 1) * batch, heads, dim)
    # (N, K, rows) x (N, rows, D)
    total = torch.bmm(rows[:batch].permute(1, 2, 0), initial.transpose(0, 1))
    factors, previous = rows[batch:].permute(1, 2, 0), previous.transpose(0, 1)
    if rows.dtype != torch.float32:
        return torch.baddbmm(total, factors, previous)
    size = max(math.ceil(previous.shape[1] / _MOST_PARTS), _SHORTEST_PART)
    parts = zip(torch.split(factors, size, 2), torch.split(previous, size, 1), strict=True)
    for a, b in parts:
        total += torch.bmm(a, b)
    return total


def recurrent_gradient(
    layout: Layout,
    d_wx: Tensor,
    d_rest: Tensor,
    states: Sequence[Tensor],
    initial: Sequence[Tensor],
) -> Tensor:
    """d_R[gate] = sum over time and batch of d_gate s_{t-1}: a GEMM a head, source and tensor.

    Args:
        layout: of the cell.
        d_wx: gradients of the gates with input, (T, B, N, D, Gx).
        d_rest: gradients of the others, (T, B, N, D, G - Gx).
        states: at all steps, (T, B, N, D); those that no R multiplies may be empty.
        initial: the states before the first step, (B, N, D) each.

    Returns:
        (Gr, N, D out, D in).
    """
    steps, batch, heads, dim, _ = d_wx.shape
    d_R = d_wx.new_empty(len(layout.dense_gates), heads, dim, dim)
    if not steps:
        return d_R.zero_()
    before, after = (Table(layout.states, tuple(ts)) for ts in (initial, states))
    for d_gates, shares in ((d_wx, layout.input_shares), (d_rest, layout.rest_shares)):
        count = d_gates.shape[-1]
        for share in shares:
            rows = d_gates.view(steps * batch, heads, dim * count)
            product = summed_over_time(rows, before[share.source], after[share.source])
            product = product.view(heads, dim, count, dim)
            if share.whole:
                return product.permute(2, 0, 1, 3).contiguous()
            for matrix, column in share.pairs:
                d_R[matrix.number] = product[:, :, column.number]
    return d_R
