"""Backward of all layers of a module: kernels, and the gradients of the input products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...call.stack import Stack
from ...targets.stack import packed_weights, states_for, target_for
from ..directions.joint import (
    joint_ragged,
    joint_stack,
    joint_states,
    joint_weights,
    split_gradients,
    split_resets,
)
from ..rows import layer_rows
from .forward import stacked
from .sweep import StackSaved, Sweep


def backward_layers(
    stack: Stack,
    saved: StackSaved,
    firsts: Sequence[Sequence[Tensor]],
    gradients: Sequence[Tensor | None],
    needs: Sequence[bool],
    donated: bool,
) -> list[Tensor | None]:
    """Return the gradients of all inputs, in their order; those not in `needs` may be None.

    Inputs are x, the caller's states, what says how rows take steps, the cell's inputs and the
    weights. `firsts` are the states of each direction of each layer before its first step.
    `gradients` are of the output and of each last state, or None for zero. If `donated`, nobody
    reads what the kernels saved again: it may be overwritten.
    """
    target = target_for(stack)
    run, own, d_lasts, wanted = stack, saved, gradients[1:], needs
    if stack.joint:
        run, own, firsts, d_lasts, wanted = _joint(stack, saved, d_lasts, needs)
    elif stack.by_head:
        own = saved._replace(weights=packed_weights(target, saved.weights))
    rows = layer_rows(run, saved.x, saved.ragged)
    sweep = Sweep(run, own, firsts, d_lasts, wanted, donated, rows)
    d_y = gradients[0]
    if run.at_once and target.at_once and sweep.all_layers(d_y):
        d_y = sweep.d_x
    else:
        for layer in range(run.layers - 1, -1, -1):
            d_y = sweep.layer(layer, d_y)
    d_states: list[Tensor | None] = []
    if saved.states:
        with target.moves() as moves:
            each = zip(*sweep.d_firsts, strict=True)
            d_states = [stacked(stack, d_firsts, moves) for d_firsts in each]
    split = split_gradients if stack.joint else list
    d_ragged = sweep.d_ragged()
    d_states += map(split_resets, d_ragged) if stack.joint else d_ragged
    d_states += sweep.d_unweighted
    return [d_y, *d_states, *(d for layer in sweep.d_weights for d in split(layer))]


def _joint(
    stack: Stack,
    saved: StackSaved,
    d_lasts: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> tuple[Stack, StackSaved, Any, Sequence[Tensor | None], Sequence[bool]]:
    """Return what the backward reads where both directions of a layer were one call.

    It is the call of all heads, what it saved, the states before its first step, the gradients of
    its last states, and which gradients of its inputs are wanted.
    """
    both = joint_stack(stack)
    with target_for(stack).moves() as moves:
        states, weights = joint_states(saved.states, moves), joint_weights(saved.weights, moves)
        d_lasts = [None if d is None else joint_states([d], moves)[0] for d in d_lasts]
        ragged = joint_ragged(saved.ragged, moves)
    own = saved._replace(states=states, weights=weights, ragged=ragged)
    batch = layer_rows(both, saved.x, saved.ragged).sizes[1]
    firsts = list(states_for(both, saved.x, batch, states))
    first, count = saved.others, len(saved.weights[0].flat())
    wanted = list(needs[:first])
    for place in range(first, len(needs), 2 * count):
        two = needs[place : place + count], needs[place + count : place + 2 * count]
        wanted += [one or other for one, other in zip(*two, strict=True)]
    return both, own, firsts, d_lasts, wanted
