"""An LSTM of torch whose output is projected, on the kernels where they are faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..call.call import Tensors
from ..call.plain import is_watched
from ..call.settings import Settings
from ..call.tensors import SomeTensors, States
from ..run.projected.direction import Part, parts_of, projected
from ..run.projected.layers import whole_layer
from ..run.route import run_call
from .conversion.faster import kernels_project
from .own import is_strided

if TYPE_CHECKING:
    from .sequences import Sequences

# Of each direction of each layer: weight_ih, weight_hh, bias_ih, bias_hh, weight_hr.
PARAMETERS = 5


def is_faster(
    module: Sequences, x: Tensor, states: Sequence[Any] | None, weights: Sequence[Any]
) -> bool:
    """Return True if kernels run a projected LSTM, and take less time than torch; x is time first.

    The kernels run h~ = h before its projection. A state that the caller gives has no h~, so the
    first step from it is one of torch's operations; the directions of a layer would need two.
    """
    if torch.compiler.is_compiling() or is_watched() or len(x) < 2:
        return False
    if states is not None and module.bidirectional:
        return False
    tensors = (*weights, x, *(states or ()))
    gradients = torch.is_grad_enabled() and any(is_strided(t) and t.requires_grad for t in tensors)
    return kernels_project(x.device.type, x.dtype, module.hidden_size, x.shape[1], gradients)


def run_projected(
    settings: Settings, x: Tensor, states: Sequence[Tensor] | None, weights: SomeTensors
) -> tuple[Tensor, States]:
    """Run all layers on the kernels, time first, batched."""
    one, lasts = settings._replace(layers=1, dropout=0.0), list[States]()
    directions, every = 2 if settings.both else 1, parts_of(weights, PARAMETERS)
    for layer in range(settings.layers):
        if layer and settings.dropout:
            x = F.dropout(x, settings.dropout)
        parts = every[directions * layer : directions * (layer + 1)]
        if states is None:
            (x,), each = whole_layer(one, x, parts, ())
            lasts += each
        else:
            x, last = _from_states(one, x, [state[layer] for state in states], parts[0])
            lasts.append(last)
    return x, tuple([torch.stack(each) for each in zip(*lasts, strict=True)])


def _from_states(
    settings: Settings, x: Tensor, states: Sequence[Tensor], part: Part
) -> tuple[Tensor, States]:
    """Run one direction of a layer from states of the caller, (B, P) and (B, hidden)."""
    W, _, *biases = part.others
    assert W is not None
    gates = F.linear(x[0], W, biases[0]) + F.linear(states[0], part.recurrent, biases[1])
    i, f, z, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * states[1] + torch.sigmoid(i) * torch.tanh(z)
    first = torch.sigmoid(o) * torch.tanh(c)
    given = [first.unsqueeze(0), c.unsqueeze(0)]
    (y,), last = run_call(settings, Tensors(x[1:], given, part.whole(1)))
    y = projected(torch.cat([given[0], y]), part.matrix, 1)
    return y, (y[-1], last[1][0])
