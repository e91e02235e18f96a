"""Forward of all layers of a module: input products, kernels, and what a backward reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...call.call import Call, Tensors
from ...call.layer_call import LayerCall
from ...call.masks import MadeMasks
from ...call.requests import LayersCall
from ...call.tensors import Forward, ScanInputs, Stepped, inputs_at
from ...targets.by_torch import Moves
from ...targets.registry import TARGETS
from .given import (
    joint_ragged,
    joint_states,
    joint_weights,
    lanes_for,
    new_lasts,
    packed_weights,
    results_for,
    states_for,
    weights_for,
)
from .rows import LayerRows, layer_rows, sizes_of


class Kept(NamedTuple):
    """Tensors that a forward keeps for its backward, beside the inputs and results of the call.

    Attributes:
        masks: of each dropout, unless the caller drew them.
        runs: of each call of a layer its states at all steps, and what its kernel saved. Of a
            single step alone what its kernels saved.
        made: the masks of lengths and resets.
    """

    masks: Sequence[Any]
    runs: Sequence[Sequence[Any]]
    made: MadeMasks | None

    def flat(self) -> list[Any]:
        """Return all in one list; `kept_from` is the inverse."""
        return [*self.masks, *(tensor for run in self.runs for tensor in run), *(self.made or ())]


def kept_from(call: Call, flat: Sequence[Any]) -> Kept:
    """Return what `Kept.flat` flattened."""
    if call.single:
        return Kept((), (flat,), None)
    made = None
    if call.ragged is not None:
        count = len(MadeMasks._fields)
        made, flat = MadeMasks(*flat[-count:]), flat[:-count]
    each = len(call.initial_values) + 1
    first = len(flat) - each * call.runs
    runs = [flat[place : place + each] for place in range(first, len(flat), each)]
    return Kept(flat[:first], runs, made)


def forward_layers(
    call: Call, tensors: Tensors, to: Stepped | None = None
) -> tuple[list[Tensor], Kept]:
    """Return the results of all layers, and what a backward reads; `to` is as in `Target.step`."""
    target, (x, states, _, ragged, _, drawn) = TARGETS[call.target], tensors
    weights = weights_for(call, tensors.weights)
    run, made, (steps, batch) = call, None, sizes_of(call, x, ragged)
    if ragged is not None:
        made = target.made_masks(ragged, (batch, steps), x.device, call.reverses)
    if call.both is not None:
        run = call.both
        with target.moves() as moves:
            states, weights = joint_states(states, moves), joint_weights(weights, moves)
            tensors = tensors._replace(ragged=joint_ragged(ragged, moves))
    elif call.by_head:
        weights = packed_weights(target, weights)
    firsts = list(states_for(run, x, batch, states))
    output, lasts = (None, new_lasts(call, x, batch)) if to is None else (to.output, to.last)
    own = results_for(run, output, lasts)
    asked = LayersCall(run, weights, firsts, own, () if drawn is None else drawn.unbind(0))
    found = target.forward_layers(asked, x) if run.at_once and target.at_once else None
    rows = layer_rows(run, (steps, batch), tensors)
    results, masks = found or _one_by_one(asked, tensors, made, rows)
    sequences = joined_states(run, rows, [result.states for result in results])
    kept = Kept(masks, [(*result.states, result.saved) for result in results], made)
    if call.takes_wx:
        return [*sequences, *results[0].last], kept
    if lasts:
        return [*sequences, *lasts], kept
    parts = zip(*(result.last for result in results), strict=True)
    with target.moves() as moves:
        return [*sequences, *[stacked(call, each, moves) for each in parts]], kept


def _one_by_one(
    asked: LayersCall, tensors: Tensors, made: MadeMasks | None, rows: LayerRows
) -> tuple[list[Forward], list[Tensor]]:
    """Return the results of all layers, one after the other, and the mask of each dropout."""
    call, x, directions = asked.call, tensors.x, len(asked.call.directions)
    results: list[Forward] = []
    masks: list[Tensor] = []
    for layer in range(call.layers):
        if layer:
            x = rows.joined([result.states[0] for result in results[-directions:]])
        if layer and asked.drawn:
            x = dropped(call, x, asked.drawn[layer - 1])
        elif layer and call.dropout:
            x, mask = torch.native_dropout(x, call.dropout, True)
            masks.append(mask)
        with lanes_for(call, x, rows.sizes[0]) as lanes:
            for direction, layer_call in enumerate(call.directions_of(layer)):
                index = layer * directions + direction
                W, R, b, R_diag, params = asked.weights[index]
                inputs = inputs_at(tensors.unweighted, index)
                with lanes.lane(direction):
                    own = call.masks(tensors.ragged, made, index)
                    first, to = asked.first[index], asked.to[index]
                    given = R, b, first, R_diag, params, own, inputs, to
                    results.append(_forward(layer_call, rows, x, W, given))
    return results, masks


def _forward(
    layer_call: LayerCall, rows: LayerRows, x: Tensor, W: Tensor | None, given: tuple[Any, ...]
) -> Forward:
    """Run one direction of a layer; `given` is what `ScanInputs` has besides wx."""
    target = TARGETS[layer_call.target]
    if W is not None and target.takes_features(layer_call, x, W):
        inputs = ScanInputs(rows.project(x, None), *given)
        return target.forward_of_features(layer_call, x, W, inputs)
    wx = rows.project(x, W)
    # A buffer of wx that is made here becomes that of the saved gates.
    return target.forward(layer_call, ScanInputs(wx, *given), donated=wx is not x)


def joined_states(run: Call, rows: LayerRows, states: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return the states of the last layer at all steps, from those of each run."""
    uppermost = states[-len(run.directions) :]
    return [rows.joined([own[number] for own in uppermost]) for number in range(run.sequences)]


def dropped(call: Call, features: Tensor, mask: Tensor) -> Tensor:
    """Return features, or their gradients, without those that a mask drops."""
    kept: Tensor = torch.ops.aten.native_dropout_backward(features, mask, call.scale)
    return kept


def stacked(call: Call, each: Sequence[Tensor], moves: Moves) -> Tensor:
    """Return a state of all runs, (B, N, D) each, as (layers * directions, B, hidden).

    One without gaps has the strides of a new tensor, as a replayed call gives it. A loop of calls
    that carry states is replayed only if these have the same strides each time.
    """
    batch, hidden, own = each[0].shape[0], call.heads * call.dim, 1 if call.both is None else 2
    if len(each) == own == 1:
        return each[0].view(1, batch, hidden)
    parts = [state.view(batch, own, hidden).transpose(0, 1) for state in each]
    return moves.cat(parts, 0)
