"""Backward of a single step of all layers."""

from __future__ import annotations

import torch
from torch import Tensor

from ...call.call import Call, Tensors
from ...call.requests import StepBackward
from ...targets.registry import TARGETS
from ..driver.streams import on_device
from .backward_layers import BackwardLayers, ProductLayers, TiledLayers
from .ready import step_ready
from .tensors import weights_by_gate


def backward_step(call: Call, tensors: Tensors, backward: StepBackward) -> list[Tensor | None]:
    """Return the gradients of x, the caller's states and the flat weights of each layer."""
    x, states, weights = tensors.x, tensors.states, call.flat_weights(tensors.weights)
    stepped, gradients, needs = backward
    if not x.shape[-2]:
        return Tensors(x, states, weights).zeros(needs)
    if call.heads > 1:
        weights = weights_by_gate(call, weights)
    sizes = (*x.shape[-2:], call.heads, call.dim)
    ready = step_ready(call.directions[0], "backward", *sizes, x.dtype, x.device.index)
    given, shape = len(states), (call.layers, ready.batch, call.heads * call.dim)
    first = states or TARGETS[call.target].initial_states(x, call.initial_values, shape)
    tiled = ready.plan.gradient_tile is not None
    d_states: list[Tensor] = []
    if any(needs[1 : 1 + given]):
        kind = x.dtype if tiled else ready.real
        d_states = [x.new_empty(shape, dtype=kind) for _ in first]
    with on_device(x.device):
        make: type[BackwardLayers] = TiledLayers if tiled else ProductLayers
        layers = make(ready, x, first, weights, d_states, stepped, gradients)
        d_weights: list[Tensor | None] = []
        count = len(weights) // call.layers
        for layer in range(call.layers - 1, -1, -1):
            start = 1 + given + layer * count
            d_weights[:0] = layers.run(layer, layer > 0 or needs[0], needs[start : start + count])
    d_x = None if layers.d_output is None else layers.d_output.view(x.shape)
    if d_x is None and needs[0]:
        d_x = torch.zeros_like(x)
    if d_states and x.dtype != d_states[0].dtype:
        d_states = [d.to(x.dtype) for d in d_states]
    return [d_x, *(d_states or (None,) * given), *d_weights]
