"""Layers whose output is projected: h = P h~, while the kernels run the recurrence on h~."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...call.call import Tensors
from ...call.masks import masks_by_torch
from ...call.projection import Projection
from ...call.settings import OUTPUT, Settings
from ...call.tensors import States, inputs_at, inputs_of
from ..route import check_wavefront, run_call
from .direction import Direction, Part, parts_of, projected


def scan_projected(
    settings: Settings, projection: Projection, tensors: Tensors, every: bool = False
) -> tuple[list[Tensor], States]:
    """Run all layers of a module whose output is projected.

    `settings` have the dropout of this call. States before the first step are h, (layers *
    directions, B, heads * P), and each other state; none for each state's `init`. The last weights
    of each direction are the matrices that multiply something else than h, or None, and P. `every`
    wants all states of the last layer at all steps, (T, B, features), or else its output alone. The
    other result is each state of all layers after the last step.
    """
    x, states, weights, ragged, unweighted, _ = tensors
    check_wavefront(settings, tensors, OUTPUT, "reference")
    directions = len(settings.choices)
    count = len(weights) // (settings.layers * directions)
    parts = parts_of(weights, count, projection.order)
    made = None
    if ragged is not None:
        sizes = x.shape[1], x.shape[0]
        made = masks_by_torch(ragged, sizes, x.device, settings.reverses)
        x = ragged.cleaned(x)
    one = settings._replace(cell=projection.recurrent, layers=1, dropout=0.0)
    lasts: list[States] = []
    found: list[Tensor] = []
    for layer in range(settings.layers):
        if layer and settings.dropout:
            x = F.dropout(x, settings.dropout)
        wanted = every and layer == settings.layers - 1
        own = parts[layer * directions : (layer + 1) * directions]
        if not (ragged or states or projection.init or wanted) and len(x) > 1:
            inputs = inputs_of(unweighted, slice(len(lasts), len(lasts) + directions))
            found, last = whole_layer(one, x, own, inputs)
            lasts += last
        else:
            outputs = []
            for part, choice in zip(own, settings.choices, strict=True):
                index = len(lasts)
                given = [state[index] for state in states]
                inputs = inputs_at(unweighted, index)
                call = Direction(settings, projection, choice, x, given, part, wanted, inputs)
                over_time, each = call.run(*call.masks(made, ragged, index))
                outputs.append(over_time)
                lasts.append(each)
            found = [
                torch.cat(each, 2) if settings.both else each[0]
                for each in zip(*outputs, strict=True)
            ]
        x = found[0]
    return found, tuple([torch.stack(each) for each in zip(*lasts, strict=True)])


def whole_layer(
    settings: Settings, x: Tensor, parts: Sequence[Part], unweighted: Sequence[Tensor]
) -> tuple[list[Tensor], list[States]]:
    """Run both directions of a layer without given states, as a layer that is not projected.

    `settings` are of this layer, with the cell on h~. The results are the output, (T, B, features),
    and the states of each direction after its last step.
    """
    weights = [weight for part in parts for weight in part.whole(settings.heads)]
    (y,), last = run_call(settings, Tensors(x, (), weights, None, tuple(unweighted)))
    matrices = [part.matrix for part in parts]
    both = matrices[0] if len(parts) == 1 else torch.cat(matrices)
    lasts: list[States] = []
    for i, part in enumerate(parts):
        h, *others = [state[i] for state in last]
        lasts.append((projected(h, part.matrix, settings.heads), *others))
    return [projected(y, both, settings.heads * len(parts))], lasts
