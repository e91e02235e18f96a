"""Calls layer by layer, with products by operations of torch: of the reference, and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..call.call import Tensors
from ..call.forms import LayerWeights
from ..call.layer_call import Choice, check_words
from ..call.marks import outside_of_graphs
from ..call.masks import masks_by_torch
from ..call.settings import Asked, Settings
from ..call.tensors import ScanInputs, States, inputs_at
from ..check.scan import check_scan
from ..targets.reference import scan_reference
from ..targets.registry import target_of

# Runs a direction by its choice, its number among those of all layers, wx, the states before the
# first step and the weights besides W. Gives all states at all steps, or the first alone,
# (B, T, N, D) each, and those after the last step, (B, N, D) each.
Scan = Callable[[Choice, int, Tensor, States, tuple[Any, ...]], tuple[States, States]]


def run_by_layer(
    settings: Settings, tensors: Tensors, asked: Asked, scan: Scan
) -> tuple[list[Tensor], States]:
    """Run all layers; arguments and results are as in `run_call`, rows are not packed."""
    x, ragged, both = tensors.x, tensors.ragged, settings.both
    named = settings.form.weights(tensors.weights, settings.layers * len(settings.choices))
    if asked.takes_wx:
        first = tuple(tensors.states) or _first(settings, x, x.shape[0])
        found, last = scan(settings.choice, 0, x, first, named[0][1:])
        wanted = found if asked.all_states else found[:1]
        return [state.transpose(0, 1) for state in wanted], last
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
            over_time, last = _direction(settings, choice, index, x, given, named[index], scan)
            outputs.append(over_time)
            lasts.append(last)
        each = zip(*outputs, strict=True)
        found_states = [torch.cat(pair, 2) if both else pair[0] for pair in each]
        x = found_states[0]
    after = tuple(torch.stack(each) for each in zip(*lasts, strict=True))
    return found_states if asked.all_states else found_states[:1], after


def _direction(
    settings: Settings,
    choice: Choice,
    index: int,
    x: Tensor,
    states: Sequence[Tensor],
    weights: LayerWeights,
    scan: Scan,
) -> tuple[list[Tensor], States]:
    """Run one direction of a layer, on x (T, B, features); states have (…, hidden).

    A function of its own, since torch's compiler goes on behind a scan that it cannot trace, but
    not within a loop.
    """
    heads, dim = settings.heads, settings.dim
    steps, batch, _ = x.shape
    first = tuple([state.reshape(batch, heads, dim) for state in states])
    W, *others = weights
    wx = input_share(settings, x, W)
    over_time, last = scan(choice, index, wx, first or _first(settings, x, batch), tuple(others))
    sequences = [s.transpose(0, 1).reshape(steps, batch, heads * dim) for s in over_time]
    return sequences, tuple([state.reshape(batch, heads * dim) for state in last])


def input_share(settings: Settings, x: Tensor, W: Tensor | None) -> Tensor:
    """Return wx, (B, T, N, D, Gx), of x (T, B, features); W is as in `LayerWeights`."""
    if W is None:  # a cell that takes no input still runs for as many steps
        return x.new_empty(x.shape[1], x.shape[0], settings.heads, settings.dim, 0)
    return target_of(x.device, settings.backend).project(x, W)


def _first(settings: Settings, like: Tensor, batch: int) -> States:
    """Return the states before the first step where the caller gives none."""
    shape = (batch, settings.heads, settings.dim)
    return tuple([like.new_full(shape, state.init) for state in settings.cell.states])


# Torch cannot trace the functions of a cell as text, and would break the graph at each of them.
_outside_of_graphs = outside_of_graphs(scan_reference)


def run_reference(
    settings: Settings, tensors: Tensors, asked: Asked
) -> tuple[list[Tensor], States]:
    """Run all layers by the reference; arguments and results are as in `run_call`."""
    check_words(settings.choice)
    x, ragged = tensors.x, tensors.ragged
    sizes = (x.shape[0], x.shape[1]) if asked.takes_wx else (x.shape[1], x.shape[0])
    made = None
    if ragged is not None:
        made = masks_by_torch(ragged, sizes, x.device, settings.reverses)

    def scan(
        choice: Choice, index: int, wx: Tensor, first: States, weights: tuple[Any, ...]
    ) -> tuple[States, States]:
        masks, plane = None, (settings.heads, settings.dim)
        if ragged is not None and made is not None:
            masks = made.at(index, ragged.reset_to, plane, choice.reverse)
        R, b, R_diag, params = weights
        given = inputs_at(tensors.unweighted, index)
        inputs = ScanInputs(wx, R, b, first, R_diag, params, masks, given)
        if torch.compiler.is_compiling():
            return _outside_of_graphs(settings.cell, inputs, choice.reverse is True)
        check_scan(settings.cell, inputs)  # a module's weights may differ in dtype
        return scan_reference(settings.cell, inputs, choice.reverse is True)

    return run_by_layer(settings, tensors, asked, scan)
