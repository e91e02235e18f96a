"""Weights, states and lanes of a call of all layers, as its target wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from ..call.call import Call
from ..call.forms import LayerWeights
from ..call.tensors import SomeTensors
from .by_torch import ONE_LANE, Lanes
from .registry import TARGETS
from .target import Target


def weights_for(call: Call, parameters: SomeTensors, forward: bool = True) -> list[LayerWeights]:
    """Return the weights of each direction for kernels; a backward alone may lack biases."""
    target = TARGETS[call.target]
    biases = forward or target.computes_gates_again(call.directions[0].choice.save)
    return call.form.for_kernels(parameters, call.parts, target.reads_by_address, biases)


def states_for(
    call: Call, like: Tensor, batch: int, states: Sequence[Tensor]
) -> Iterator[list[Tensor]]:
    """Yield the states before the first step, of each direction of each layer.

    `states` of the caller are (layers * directions, B, hidden) each, of a call that takes wx
    (B, N, D). Where there are none, `like` gives dtype and device.
    """
    shape = batch, call.heads, call.dim
    if not states:
        first = TARGETS[call.target].initial_states(like, call.initial_values, shape)
        yield from [first] * call.parts
    elif call.takes_wx:
        yield list(states)
    else:
        yield from ([s[index].reshape(shape) for s in states] for index in range(call.parts))


def lanes_for(call: Call, x: Tensor, steps: int) -> Lanes:
    """Return lanes for the directions of a layer, which run at once where the target can."""
    return TARGETS[call.target].lanes(x, steps) if len(call.directions) > 1 else ONE_LANE


def packed_weights(target: Target, weights: Sequence[LayerWeights]) -> list[LayerWeights]:
    """Return weights of several heads gate by gate, unless strides may vary; W stays."""
    if target.reads_by_address:
        return list(weights)
    with target.moves() as moves:
        return [
            own._replace(
                R=None if own.R is None else moves.packed(own.R),
                b=None if own.b is None else moves.packed(own.b),
                R_diag=None if own.R_diag is None else moves.packed(own.R_diag),
            )
            for own in weights
        ]
