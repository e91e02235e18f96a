"""Layers of torch's modules by torch's own functions of whole layers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import _VF, Tensor, nn

from ..call.call import Call, Tensors

_RUNS = {"lstm": _VF.lstm, "gru": _VF.gru, "elman": _VF.rnn_tanh, "irnn": _VF.rnn_relu}


def torch_layers(call: Call, tensors: Tensors, masks: Sequence[Tensor]) -> list[Tensor]:
    """Return the results of a call by torch's operations, which autograd can differentiate again.

    The call is of a module of torch, of all rows or packed ones, or a single step. `masks` are of
    each dropout.
    """
    run: Any = _RUNS[call.directions[0].cell.name]
    directions, states, sizes = len(call.directions), list(tensors.states), None
    x = tensors.x.unsqueeze(0) if call.single and tensors.x.ndim == 2 else tensors.x
    if tensors.ragged is not None and tensors.ragged.starts is not None:
        sizes = tensors.ragged.starts.diff().cpu()
    batch = x.shape[1] if sizes is None else int(sizes[0])
    if not states:
        shape = (call.parts, batch, call.dim)
        states = [x.new_zeros(shape) for _ in call.initial_values]
    lasts: list[Sequence[Tensor]] = []
    # cuDNN has no second derivatives.
    off = torch.backends.cudnn.flags(enabled=False) if x.is_cuda else nullcontext()
    with off:
        for layer in range(call.layers):
            if layer and masks:
                x = x * masks[layer - 1] * call.scale
            elif layer and call.dropout:
                x = nn.functional.dropout(x, call.dropout)
            own = slice(layer * directions, (layer + 1) * directions)
            hx = [state[own] for state in states]
            weights = [w for w in tensors.weights[4 * own.start : 4 * own.stop] if w is not None]
            bias = len(weights) == 4 * directions
            given = hx if len(hx) > 1 else hx[0]
            options = bias, 1, 0.0, True, directions == 2
            if sizes is None:
                x, *last = run(x, given, weights, *options, False)
            else:
                x, *last = run(x, sizes, given, weights, *options)
            lasts.append(last)
    y = x[0] if call.single and tensors.x.ndim == 2 else x
    return [y, *(torch.cat(each) for each in zip(*lasts, strict=True))]
