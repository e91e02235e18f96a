"""Gradients of weights for each of several samples: sums over time by batched products of torch.

Rows lie sample by sample: those of a sample beside each other. A product is of each head of each
sample, so samples are heads of it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.layout import layout_of
from ...codegen.shape import Reverse
from ..call.layer_call import LayerCall
from ..call.masks import read_states
from ..call.tensors import Gradients, Saved
from .gemms import states_before, sums_over_time


def of_samples(layer_call: LayerCall, samples: int, saved: Saved, found: Gradients) -> Gradients:
    """Return gradients with d_R, d_b and d_R_diag of each sample, on a first axis.

    `found` are those of all rows. Params keep the sum of all samples: no tensor has its parts.
    """
    cell, reverse = layer_call.cell, layer_call.choice.reverse
    sizes = len(saved.initial_states[0]) // samples, samples
    states, firsts = list(saved.states), list(saved.initial_states)
    if saved.masks is not None:
        states, firsts = read_states(cell, saved.masks, states, firsts, reverse)
    zero = saved.known_zero or (False,) * len(firsts)
    known = [None if z else first for z, first in zip(zero, firsts, strict=True)]
    return replace(
        found,
        d_R=_of_matrices(cell, sizes, found, states, known, reverse),
        d_b=_of_biases(cell, sizes, found),
        d_R_diag=_of_diagonals(cell, sizes, found, states, firsts, reverse),
    )


def input_weight_of_samples(samples: int, d_wx: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of W of each sample, (samples, Gx, N, D, input)."""
    batch, _, heads, dim, gates = d_wx.shape
    rows, last = _rows(d_wx)
    own = _rows_of_samples(rows.flatten(2), batch // samples, samples)
    product = torch.bmm(own.transpose(1, 2), _rows_of_samples(x, batch // samples, samples))
    plane = (heads, dim, gates) if last else (heads, gates, dim)
    found = torch.unflatten(product, 1, plane)
    return found.movedim(3 if last else 2, 1)


def _of_matrices(
    cell: CellSpec,
    sizes: tuple[int, int],
    found: Gradients,
    states: list[Tensor],
    firsts: list[Tensor | None],
    reverse: Reverse,
) -> Tensor:
    """Return d_R of each sample; `sizes` are rows of a sample, and samples."""
    _, steps, heads, dim, _ = found.d_wx.shape
    products = layout_of(cell).products
    matrices, samples = sum(len(product.pairs) for product in products), sizes[1]
    new = found.d_wx.new_empty if steps else found.d_wx.new_zeros
    to = new(samples, matrices, heads, dim, dim)
    for of_input, state, pairs, whole in products if steps else ():
        d_gates = found.d_wx if of_input else found.d_others
        assert d_gates is not None
        rows, last = _rows(d_gates)
        factors = _as_heads(rows, sizes).flatten(0, 1)
        first = firsts[state]
        first = None if first is None else _as_heads(first.unsqueeze(0), sizes)[0]
        before = _as_heads(states[state], sizes)
        sums = sums_over_time(factors, first, before, reverse=reverse)
        total = sums[0] if len(sums) == 1 else sums.sum(0)
        plane = (dim, d_gates.shape[-1]) if last else (d_gates.shape[-1], dim)
        total = total.view(samples, heads, *plane, dim).movedim(3 if last else 2, 1)
        if whole:
            return total
        for matrix, column in pairs:
            to[:, matrix] = total[:, column]
    return to


def _of_biases(cell: CellSpec, sizes: tuple[int, int], found: Gradients) -> Tensor:
    """Return d_b of each sample; `sizes` are as in `_of_matrices`."""
    gates = [d for d in (found.d_wx, found.d_others) if d is not None]
    sums = [_sum(d, sizes).movedim(-1, 1) for d in gates]
    each = sums[0] if len(sums) == 1 else torch.cat(sums, 1)
    own = [each[:, gate.number] for _, gate in layout_of(cell).bias.items()]
    return torch.stack(own, 1) if own else found.d_b


def _of_diagonals(
    cell: CellSpec,
    sizes: tuple[int, int],
    found: Gradients,
    states: list[Tensor],
    firsts: list[Tensor],
    reverse: Reverse,
) -> Tensor:
    """Return d_R_diag of each sample; `sizes` are as in `_of_matrices`."""
    layout, inputs, sums = layout_of(cell), found.d_wx.shape[-1], []
    for weight, gate in layout.diagonal_gates.items():
        source, number = layout.diagonal_sources[weight].number, gate.number
        before = states_before(firsts[source], states[source], reverse)
        has_input = number < inputs
        d_gates = found.d_wx if has_input else found.d_others
        assert d_gates is not None
        d_gate = d_gates[..., number if has_input else number - inputs]
        sums.append(_sum(d_gate * before.transpose(0, 1), sizes))
    return torch.stack(sums, 1) if sums else found.d_R_diag


def _sum(gradient: Tensor, sizes: tuple[int, int]) -> Tensor:
    """Return the sum over time and the rows of each sample, of (B, T, …)."""
    rows, samples = sizes
    return torch.unflatten(gradient, 0, (samples, rows)).sum((1, 2))


def _rows(d_gates: Tensor) -> tuple[Tensor, bool]:
    """Return (T, B, N, K) in the order of memory, and whether gates, not units, are adjacent."""
    in_time, last = d_gates.transpose(0, 1), d_gates.stride(4) == 1
    return (in_time if last else in_time.transpose(3, 4)).flatten(3), last


def _as_heads(tensor: Tensor, sizes: tuple[int, int]) -> Tensor:
    """Return (T, rows, samples * N, …) of (T, samples * rows, N, …)."""
    rows, samples = sizes
    return torch.unflatten(tensor, 1, (samples, rows)).transpose(1, 2).flatten(2, 3)


def _rows_of_samples(tensor: Tensor, rows: int, samples: int) -> Tensor:
    """Return (samples, T * rows, features) of (T, samples * rows, features)."""
    return torch.unflatten(tensor, 1, (samples, rows)).movedim(1, 0).flatten(1, 2)
