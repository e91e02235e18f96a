"""Layers of a module by torch's own functions of whole layers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import _VF, Tensor, nn

from ..call.settings import Settings
from ..call.tensors import States

_RUNS = {"lstm": _VF.lstm, "gru": _VF.gru, "elman": _VF.rnn_tanh, "irnn": _VF.rnn_relu}


def torch_layers(
    settings: Settings,
    dropout: float,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Sequence[Tensor | None],
    masks: Sequence[Tensor] = (),
    batch_sizes: Tensor | None = None,
) -> tuple[Tensor, States]:
    """Run all layers by torch's operations, which autograd can differentiate again.

    x is (T, B, input), or (total, input) of packed rows, which have `batch_sizes` of each step.
    `states` are (layers * directions, B, hidden) each before the first step; empty for zeros.
    `masks` are of each dropout, where they are drawn already.
    """
    run: Any = _RUNS[settings.cell.name]
    directions = len(settings.choices)
    if not states:
        batch = x.shape[1] if batch_sizes is None else int(batch_sizes[0])
        shape = (settings.layers * directions, batch, settings.dim)
        states = [x.new_zeros(shape) for _ in settings.cell.states]
    lasts: list[Sequence[Tensor]] = []
    # cuDNN has no second derivatives.
    off = torch.backends.cudnn.flags(enabled=False) if x.is_cuda else nullcontext()
    with off:
        for layer in range(settings.layers):
            if layer and masks:
                x = x * masks[layer - 1] * (1 / (1 - dropout) if dropout < 1 else 0.0)
            elif layer and dropout:
                x = nn.functional.dropout(x, dropout)
            own = slice(layer * directions, (layer + 1) * directions)
            hx = [state[own] for state in states]
            weights = [w for w in parameters[4 * own.start : 4 * own.stop] if w is not None]
            bias = len(weights) == 4 * directions
            given = hx if len(hx) > 1 else hx[0]
            options = bias, 1, 0.0, True, settings.both
            if batch_sizes is None:
                x, *last = run(x, given, weights, *options, False)
            else:
                x, *last = run(x, batch_sizes, given, weights, *options)
            lasts.append(last)
    return x, tuple(torch.cat(each) for each in zip(*lasts, strict=True))
