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
from ..call.tensors import States
from ..run.projected import whole_layer
from ..run.projected_weights import Part, parts_of, projected
from ..run.route import run_call
from .conversion.faster import kernels_project
from .kinds import kind_of
from .serve import is_strided, kernels_serve

if TYPE_CHECKING:
    from .sequences import Sequences

# Of each direction of each layer: weight_ih, weight_hh, bias_ih, bias_hh, weight_hr.
PARAMETERS = 5


def run_projected(
    module: Sequences, input: Any, states: Sequence[Any] | None
) -> tuple[Tensor, States] | None:
    """Run all layers of a module with a projection on the kernels, in the caller's layout.

    The kernels run h~ = h before its projection. A state that the caller gives has no h~, so the
    first step from it is one of torch's operations; the directions of a layer would need two. The
    result is the output and the states after the last step; None if torch's forward is faster, or
    has to run.
    """
    if torch.compiler.is_compiling() or is_watched():
        return None
    if not is_strided(input) or input.ndim not in (2, 3) or 0 in input.shape:
        return None
    single = input.ndim == 2
    x = input.unsqueeze(1) if single else input.transpose(0, 1) if module.batch_first else input
    if len(x) < 2 or (states is not None and module.bidirectional):
        return None
    weights, directions = module._weights(), 2 if module.bidirectional else 1
    if len(weights) != PARAMETERS * directions * module.num_layers:
        return None
    if x.shape[2] != module.input_size or not module._weights_fit(weights, 4, directions):
        return None
    if not _states_fit(module, states, input):
        return None
    tensors = [x, *(states or ()), *[weight for weight in weights if weight is not None]]
    gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if not kernels_project(x.device.type, x.dtype, module.hidden_size, x.shape[1], gradients):
        return None
    if not kernels_serve(tensors):
        return None
    given = states
    if states is not None and single:
        given = [state.unsqueeze(1) for state in states]
    y, last = _layers(module, x, given, weights)
    if single:
        return y.squeeze(1), tuple([state.squeeze(1) for state in last])
    return (y.transpose(0, 1) if module.batch_first else y), last


def recurrence_of(module: Sequences) -> Settings:
    """Return the settings of a layer that the kernels run: h~, without its projection."""
    kind = kind_of(module.mode)
    assert kind is not None
    return kind.settings(1, bool(module.bidirectional), module.hidden_size, 0.0)


def _layers(
    module: Sequences,
    x: Tensor,
    states: Sequence[Tensor] | None,
    weights: Sequence[Tensor | None],
) -> tuple[Tensor, States]:
    """Run all layers, time first, batched."""
    settings, lasts = recurrence_of(module), list[States]()
    directions, every = len(settings.choices), parts_of(weights, PARAMETERS)
    for layer in range(module.num_layers):
        if layer and module._dropout:
            x = F.dropout(x, module._dropout)
        parts = every[directions * layer : directions * (layer + 1)]
        if states is None:
            (x,), each = whole_layer(settings, x, parts, ())
            lasts += each
        else:
            x, last = _from_states(settings, x, [state[layer] for state in states], parts[0])
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


def _states_fit(module: Sequences, states: Sequence[Any] | None, input: Tensor) -> bool:
    """Return True if states, of one direction of each layer, have the shapes that torch wants."""
    if states is None:
        return True
    batch = () if input.ndim == 2 else (input.shape[0 if module.batch_first else 1],)
    sizes = module.proj_size, module.hidden_size
    return len(states) == 2 and all(
        is_strided(state) and state.shape == (module.num_layers, *batch, size)
        for state, size in zip(states, sizes, strict=True)
    )
