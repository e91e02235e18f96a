"""Calls of a module that return all states of the last layer at all steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..call.ragged import Ragged
from ..call.settings import Settings
from ..call.tensors import States
from .layer_by_layer import scan_direction
from .layers import check_wavefront, scan_layers
from .ragged import RaggedLayers


def scan_all_states(
    settings: Settings,
    training: bool,
    x: Tensor,
    states: Sequence[Tensor] | None,
    weights: Sequence[Tensor | None],
    ragged: Ragged | None = None,
    unweighted: Sequence[Tensor] = (),
) -> tuple[list[Tensor], States]:
    """Run all layers: those below the last as in any call, and then the last one.

    Arguments are as in `scan_layers`. The results are the last layer's states at all steps,
    (T, B, directions * hidden) each, and each state of all layers after the last step.
    """
    if settings.order == "wavefront" and settings.layers > 1:
        check_wavefront(settings, x, None)
    directions, below = len(settings.choices), settings.layers - 1
    parts = below * directions
    first = len(weights) // settings.layers * below
    lasts: list[States] = []
    in_time = None
    if ragged is not None:
        in_time = RaggedLayers(settings, ragged, x.device, *x.shape[:2])
        x = ragged.cleaned(x)
        if ragged.reset_to is not None:
            ragged = ragged._replace(reset_to=[value[:parts] for value in ragged.reset_to])
    if below:
        given = None if states is None else [state[:parts] for state in states]
        lower = settings._replace(layers=below)
        lower_weights = weights[:first]
        x, last = scan_layers(lower, training, x, given, lower_weights, None, ragged, unweighted)
        x = F.dropout(x, settings.dropout, training)
        lasts.append(last)
    named = settings.form.weights(weights[first:], directions)
    found = []
    for direction, choice in enumerate(settings.choices):
        own = [state[parts + direction] for state in states or ()]
        rows = None if in_time is None else in_time.masks(parts + direction)
        over_time, last = scan_direction(
            settings, choice, x, own, named[direction], True, rows, unweighted
        )
        found.append(over_time)
        lasts.append(tuple([state[None] for state in last]))
    sequences = [
        torch.cat(each, 2) if settings.both else each[0] for each in zip(*found, strict=True)
    ]
    return sequences, tuple([torch.cat(each) for each in zip(*lasts, strict=True)])
