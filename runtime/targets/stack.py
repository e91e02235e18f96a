"""Weights, states and lanes of a call of all layers, as its target wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from torch import Tensor

from ..call.forms import TorchForm
from ..call.layers import LayerWeights
from ..call.rows_form import RowsForm
from ..call.stack import Stack
from .lanes import ONE_LANE, Lanes
from .registry import TARGETS
from .target import Target


def target_for(stack: Stack) -> Target:
    """Return the target that runs a call."""
    return TARGETS[stack.calls[0].target]


def weights_for(
    stack: Stack, parameters: Sequence[Tensor | None], forward: bool = True
) -> list[LayerWeights]:
    """Return the weights of each direction of each layer, where kernels read them.

    Biases may hold other values if neither a `forward` nor gates computed again read them.
    """
    form = stack.form
    if isinstance(form, RowsForm):
        return form.weights(parameters, stack.parts, target_for(stack).reads_by_address)
    if isinstance(form, TorchForm):
        again = target_for(stack).computes_gates_again(stack.calls[0].choice.save)
        return form.weights(parameters, stack.parts, by_kernels=True, biases=forward or again)
    return form.weights(parameters, stack.parts)


def states_for(
    stack: Stack, like: Tensor, batch: int, states: Sequence[Tensor]
) -> Iterator[list[Tensor]]:
    """Yield the states before the first step, of each direction of each layer.

    `states` of the caller are (layers * directions, B, hidden) each, of a call that takes wx
    (B, N, D). Where there are none, `like` gives dtype and device.
    """
    shape, count = (batch, stack.heads, stack.dim), stack.parts
    if stack.takes_wx and states:
        yield list(states)
        return
    if not states:
        first = target_for(stack).initial_states(like, stack.initial_values, shape)
        yield from [first] * count
    for index in range(count if states else 0):
        yield [state[index].reshape(shape) for state in states]


def lanes_for(stack: Stack, x: Tensor, steps: int) -> AbstractContextManager[Lanes]:
    """Return lanes for the directions of a layer, which run at once where the target can."""
    return target_for(stack).lanes(x, steps) if len(stack.calls) > 1 else ONE_LANE


def packed_weights(target: Target, weights: Sequence[LayerWeights]) -> list[LayerWeights]:
    """Return weights of several heads as kernels read them: gate by gate, unless strides may vary.

    W is left to its product.
    """
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
