"""Calls by the reference: layer by layer, by operations that modes and autograd see."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..call.call import Choice
from ..call.layers import LayerWeights
from ..call.marks import outside_of_graphs
from ..call.masks import Masks
from ..call.settings import Asked, Settings
from ..call.stack import Tensors
from ..call.tensors import ScanInputs, States
from ..check.scan import check_scan
from ..targets.reference import scan_reference
from ..targets.registry import target_of
from .ragged import RaggedLayers

# Torch cannot trace the functions of a cell as text, and would break the graph at each of them.
_outside_of_graphs = outside_of_graphs(scan_reference)


def run_reference(
    settings: Settings, tensors: Tensors, asked: Asked
) -> tuple[list[Tensor], States]:
    """Run all layers by the reference; arguments and results are as in `run_call`."""
    x, ragged, both = tensors.x, tensors.ragged, settings.both
    sizes = (x.shape[1], x.shape[0]) if asked.takes_wx else (x.shape[0], x.shape[1])
    in_time = None if ragged is None else RaggedLayers(settings, ragged, x.device, *sizes)
    named = settings.form.weights(tensors.weights, settings.layers * len(settings.choices))
    if asked.takes_wx:
        masks, own = None if in_time is None else in_time.masks(0), named[0]
        first = tensors.states or _first(settings, x, x.shape[0])
        inputs = ScanInputs(x, *own[1:3], first, *own[3:], masks, tensors.unweighted)
        in_steps, last = _scan(settings, settings.choice, inputs)
        found = in_steps if asked.all_states else in_steps[:1]
        return [state.transpose(0, 1) for state in found], last
    if ragged is not None:
        x = ragged.cleaned(x)
    lasts: list[States] = []
    found_states: list[Tensor] = []
    for layer in range(settings.layers):
        if layer and settings.dropout:
            x = F.dropout(x, settings.dropout)
        outputs = []
        for choice in settings.choices:
            index = len(lasts)
            given = [state[index] for state in tensors.states]
            rows = None if in_time is None else in_time.masks(index)
            call = settings, choice, x, given, named[index], rows, tensors.unweighted
            over_time, last = _direction(*call)
            outputs.append(over_time)
            lasts.append(last)
        each = zip(*outputs, strict=True)
        found_states = [torch.cat(pair, 2) if both else pair[0] for pair in each]
        x = found_states[0]
    last = tuple(torch.stack(each) for each in zip(*lasts, strict=True))
    return found_states if asked.all_states else found_states[:1], last


def _direction(
    settings: Settings,
    choice: Choice,
    x: Tensor,
    states: Sequence[Tensor],
    weights: LayerWeights,
    masks: Masks | None,
    unweighted: Sequence[Tensor],
) -> tuple[list[Tensor], States]:
    """Run one direction of a layer, on x (T, B, features).

    `states` are (B, hidden) each before the first step; empty for each state's `init`. The results
    are the states at all steps, (T, B, hidden) each, and those after the last step, (B, hidden).
    """
    heads, dim = settings.heads, settings.dim
    steps, batch, _ = x.shape
    shape = (batch, heads, dim)
    first = [state.reshape(shape) for state in states] or _first(settings, x, batch)
    W, R, b, R_diag, params = weights
    if W is None:  # a cell that takes no input still runs for as many steps
        wx = x.new_empty(batch, steps, heads, dim, 0)
    else:
        wx = target_of(x.device, settings.backend).project(x, W)
    inputs = ScanInputs(wx, R, b, first, R_diag, params, masks, unweighted)
    over_time, last = _scan(settings, choice, inputs)
    sequences = [s.transpose(0, 1).reshape(steps, batch, heads * dim) for s in over_time]
    return sequences, tuple(state.reshape(batch, heads * dim) for state in last)


def _first(settings: Settings, like: Tensor, batch: int) -> list[Tensor]:
    """Return the states before the first step where the caller gives none."""
    shape = (batch, settings.heads, settings.dim)
    return [like.new_full(shape, state.init) for state in settings.cell.states]


def _scan(settings: Settings, choice: Choice, inputs: ScanInputs) -> tuple[States, States]:
    reverse = choice.reverse is True
    if torch.compiler.is_compiling():
        return _outside_of_graphs(settings.cell, inputs, reverse)
    check_scan(settings.cell, inputs)  # a module's weights may differ in dtype
    return scan_reference(settings.cell, inputs, reverse)
