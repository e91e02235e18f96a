"""Backward of all layers of a module: kernels, and the gradients of the input products."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...call.call import Call, Tensors
from ...call.forms import LayerWeights
from ...call.tensors import SomeTensors
from ...targets.layers import packed_weights, states_for, weights_for
from ...targets.registry import TARGETS
from .forward import Kept, stacked
from .joint import (
    joint_ragged,
    joint_states,
    joint_weights,
    split_gradients,
    split_resets,
)
from .rows import layer_rows
from .sweep import Sweep


def backward_layers(
    call: Call,
    tensors: Tensors,
    kept: Kept,
    gradients: SomeTensors,
    needs: Sequence[bool],
    donated: bool,
) -> list[Tensor | None]:
    """Return the gradient of each of the call's tensors, in their order, with weights by layer.

    Those not in `needs` may be None. `gradients` are of the results of the call, or None for zero.
    If `donated`, nobody reads what the kernels saved again: it may be overwritten.
    """
    if tensors.drawn is not None:
        kept = kept._replace(masks=tensors.drawn.unbind(0))
    target, run, own, wanted = TARGETS[call.target], call, tensors, needs
    d_sequences, d_lasts = gradients[: call.sequences], gradients[call.sequences :]
    weights = weights_for(call, tensors.weights, forward=False)
    if call.both is not None:
        run = call.both
        own, weights, d_lasts, wanted = _joint(call, tensors, weights, d_lasts, needs)
    elif call.by_head:
        weights = packed_weights(target, weights)
    steps, batch = kept.runs[-1][0].shape[:2]
    firsts = list(states_for(run, kept.runs[-1][0], batch, own.states))
    rows = layer_rows(run, (steps, batch), tensors)
    sweep = Sweep(run, own, weights, kept, firsts, d_lasts, wanted, donated, rows)
    if run.at_once and target.at_once and not run.samples and sweep.all_layers(d_sequences[0]):
        d_x = sweep.d_x
    else:
        for layer in range(run.layers - 1, -1, -1):
            d_x = sweep.layer(layer, d_sequences)
            d_sequences = (d_x,)
    d_states: list[Tensor | None] = []
    if call.takes_wx:
        d_states += sweep.d_firsts[0] if call.given else ()
    elif call.given:
        with target.moves() as moves:
            each = zip(*sweep.d_firsts, strict=True)
            d_states += [stacked(call, d_firsts, moves) for d_firsts in each]
    split = list if call.both is None else split_gradients
    d_ragged = sweep.d_ragged()
    d_states += d_ragged if call.both is None else map(split_resets, d_ragged)
    d_states += sweep.d_unweighted
    return [d_x, *d_states, *(d for layer in sweep.d_weights for d in split(layer))]


def _joint(
    call: Call,
    tensors: Tensors,
    weights: list[LayerWeights],
    d_lasts: SomeTensors,
    needs: Sequence[bool],
) -> tuple[Tensors, list[LayerWeights], SomeTensors, Sequence[bool]]:
    """Return what the backward reads where both directions of a layer were one call.

    It is tensors and weights of the call of all heads, the gradients of its last states, and which
    gradients of its inputs are wanted.
    """
    first, count = len(tensors.before_weights()), len(weights[0].flat())
    with TARGETS[call.target].moves() as moves:
        states, weights = joint_states(tensors.states, moves), joint_weights(weights, moves)
        d_lasts = [None if d is None else joint_states([d], moves)[0] for d in d_lasts]
        ragged = joint_ragged(tensors.ragged, moves)
    wanted = list(needs[:first])
    for place in range(first, len(needs), 2 * count):
        two = needs[place : place + count], needs[place + count : place + 2 * count]
        wanted += [one or other for one, other in zip(*two, strict=True)]
    return tensors._replace(states=states, ragged=ragged), weights, d_lasts, wanted
