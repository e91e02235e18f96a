"""Gradients of weights for each of several samples: sums over time by batched products of torch.

Rows lie sample by sample: those of a sample beside each other. A product is of each head of each
sample, so samples are heads of it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...codegen.layout import layout_of
from ..call.layer_call import LayerCall
from ..call.masks import read_states
from ..call.tensors import Gradients, Saved
from .gemms import recurrent_sums, states_before
from .multiplier import TORCH


def of_samples(layer_call: LayerCall, samples: int, saved: Saved, found: Gradients) -> Gradients:
    """Return gradients with d_R, d_b and d_R_diag of each sample, on a first axis.

    `found` are those of all rows. Params keep the sum of all samples: no tensor has its parts.
    """
    cell, reverse = layer_call.cell, layer_call.choice.reverse
    layout, states, firsts = layout_of(cell), list(saved.states), list(saved.initial_states)
    if saved.masks is not None:
        states, firsts = read_states(cell, saved.masks, states, firsts, reverse)
    gates = [d.transpose(0, 1) for d in (found.d_wx, found.d_others) if d is not None]
    own = [_as_heads(gate, samples).contiguous() for gate in gates]
    zero = saved.known_zero or (False,) * len(firsts)
    before = [None if z else s.unsqueeze(0) for z, s in zip(zero, firsts, strict=True)]
    matrices, plane = sum(len(product.pairs) for product in layout.products), gates[0].shape[2:4]
    d_R = gates[0].new_empty(samples, matrices, *plane, plane[1])
    left = recurrent_sums(
        d_R.transpose(0, 1),
        layout.products,
        own[0],
        own[-1],
        [_as_heads(state, samples) for state in states],
        [None if state is None else _as_heads(state, samples)[0] for state in before],
        TORCH,
        reverse,
    )
    for to, parts in left:
        to.copy_((parts[0] if len(parts) == 1 else parts.sum(0)).view(to.shape))
    sums = [d for gate in gates for d in _sum(gate, samples).unbind(-1)]
    biases = [sums[gate.number] for gate in layout.bias.values]
    columns, diagonal = [d for gate in gates for d in gate.unbind(-1)], []
    for weight, gate in layout.diagonal_gates.items():
        source = layout.diagonal_sources[weight].number
        factor = states_before(firsts[source], states[source], reverse)
        diagonal.append(_sum(columns[gate.number] * factor, samples))
    return replace(
        found,
        d_R=d_R,
        d_b=torch.stack(biases, 1) if biases else found.d_b,
        d_R_diag=torch.stack(diagonal, 1) if diagonal else found.d_R_diag,
    )


def input_weight_of_samples(samples: int, d_wx: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of W of each sample, (samples, Gx, N, D, input)."""
    rows = _rows_of_samples(d_wx.transpose(0, 1).flatten(2), samples)
    product = torch.bmm(rows.transpose(1, 2), _rows_of_samples(x, samples))
    return torch.unflatten(product, 1, d_wx.shape[2:]).movedim(3, 1)


def _by_sample(tensor: Tensor, samples: int) -> Tensor:
    """Return (T, samples, rows, …) of (T, samples * rows, …)."""
    return torch.unflatten(tensor, 1, (samples, tensor.shape[1] // samples))


def _sum(gradient: Tensor, samples: int) -> Tensor:
    """Return the sum over time and the rows of each sample, of (T, B, …)."""
    return _by_sample(gradient, samples).sum((0, 2))


def _as_heads(tensor: Tensor, samples: int) -> Tensor:
    """Return (T, rows, samples * N, …) of (T, samples * rows, N, …)."""
    return _by_sample(tensor, samples).transpose(1, 2).flatten(2, 3)


def _rows_of_samples(tensor: Tensor, samples: int) -> Tensor:
    """Return (samples, T * rows, features) of (T, samples * rows, features)."""
    return _by_sample(tensor, samples).movedim(1, 0).flatten(1, 2)
