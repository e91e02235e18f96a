"""The gradient of R of called gates: products over all steps of what the forward saved."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..call.facts import Called
from .multiplier import Multiplier
from .partial_sums import room_for, spans_of, sum_parts

_MOST_COLUMNS = 2**12  # of products with all saved values, for each unit of a gate


def called_sums(
    d_R: Tensor,
    called: Sequence[Called],
    d_wx: Tensor,
    d_gates_no_input: Tensor,
    saved: Tensor,
    multiplier: Multiplier,
) -> list[tuple[Tensor, Tensor]]:
    """Sum d_R[gate] = d_gate y over time and batch, where a called gate multiplies y.

    Arguments and result are as in `recurrent_sums`.

    Args:
        called: the matrices of called gates.
        saved: the values that the forward saved, (T, B, N, D, saved), with the values y.
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
