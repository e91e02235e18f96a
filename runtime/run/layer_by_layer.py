"""Layers of a module, one by one, by operations that tracers, modes and autograd see."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..call.call import Choice
from ..call.forms import TorchForm
from ..call.layers import LayerWeights
from ..call.masks import Masks
from ..call.ragged import Ragged
from ..call.settings import Settings
from ..call.tensors import ScanInputs, States
from ..targets.registry import target_of
from .ragged import RaggedLayers
from .scan import run_scan
from .torch_layers import torch_layers


def composed(
    settings: Settings,
    dropout: float,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    masks: Sequence[Tensor] = (),
    ragged: Ragged | None = None,
    unweighted: Sequence[Tensor] = (),
) -> tuple[Tensor, States]:
    """Run all layers by operations that tracers, modes, subclasses and autograd can see.

    `masks` are those of each dropout, where they are drawn already. `states` is empty for each
    state's `init`. Other arguments and the results are as in `scan_layers`.
    """
    if isinstance(settings.form, TorchForm) and ragged is None:
        return torch_layers(settings, dropout, x, states, weights, masks)
    in_time = None if ragged is None else RaggedLayers(settings, ragged, x.device, *x.shape[:2])
    if ragged is not None:
        x = ragged.cleaned(x)
    named = settings.form.weights(weights, settings.layers * len(settings.choices))
    lasts: list[States] = []
    for layer in range(settings.layers):
        if layer and masks:
            x = x * masks[layer - 1] * (1 / (1 - dropout) if dropout < 1 else 0.0)
        elif layer and dropout:
            x = F.dropout(x, dropout)
        outputs = []
        for choice in settings.choices:
            index = len(lasts)
            own = [state[index] for state in states]
            rows = None if in_time is None else in_time.masks(index)
            (y, *_), last = scan_direction(
                settings, choice, x, own, named[index], masks=rows, unweighted=unweighted
            )
            outputs.append(y)
            lasts.append(last)
        x = torch.cat(outputs, 2) if settings.both else outputs[0]
    return x, tuple(torch.stack(each) for each in zip(*lasts, strict=True))


def scan_direction(
    settings: Settings,
    choice: Choice,
    x: Tensor,
    states: Sequence[Tensor],
    weights: LayerWeights,
    all_states: bool = False,
    masks: Masks | None = None,
    unweighted: Sequence[Tensor] = (),
) -> tuple[list[Tensor], States]:
    """Run one direction of a layer, on x (T, B, features).

    `states` are (B, hidden) each before the first step; empty for each state's `init`. The results
    are the states at all steps, (T, B, hidden) each, of which `all_states` wants all or the output
    alone, and those after the last step, (B, hidden) each.
    """
    cell, heads, dim = settings.cell, settings.heads, settings.dim
    steps, batch, _ = x.shape
    shape = (batch, heads, dim)
    target = target_of(x.device, settings.backend)
    if states:
        first = [state.reshape(shape) for state in states]
    else:
        first = target.initial_states(x, [state.init for state in cell.states], shape)
    W, R, b, R_diag, params = weights
    # A cell that takes no input still runs for as many steps.
    wx = x.new_empty(batch, steps, heads, dim, 0) if W is None else target.project(x, W)
    # The output is the first state; the others are wanted only after the last step.
    wanted = (True, *(all_states,) * (len(first) - 1))
    inputs = ScanInputs(wx, R, b, first, R_diag, params, masks, unweighted)
    over_time, last = run_scan(cell, inputs, wanted, settings.backend, choice)
    found = over_time if all_states else over_time[:1]
    sequences = [s.transpose(0, 1).reshape(steps, batch, heads * dim) for s in found]
    return sequences, tuple(state.reshape(batch, heads * dim) for state in last)
