"""Weights, states and lanes of all layers of a call, as targets want them or of both directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from ...call.call import Call
from ...call.forms import LayerWeights
from ...call.ragged import Ragged
from ...call.tensors import LayerResults, SomeTensors
from ...targets.by_torch import ONE_LANE, Lanes, Moves
from ...targets.registry import TARGETS
from ...targets.target import Target


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


def new_lasts(call: Call, like: Tensor, batch: int) -> Sequence[Tensor]:
    """Return a new tensor for each state after the last step, which kernels fill, of all layers.

    There is none where kernels give tensors of their own.
    """
    if call.takes_wx or call.both is not None or not TARGETS[call.target].takes_results:
        return ()
    shape = call.parts, batch, call.heads * call.dim
    return [like.new_empty(shape) for _ in call.initial_values]


def results_for(
    call: Call, output: Tensor | None, lasts: Sequence[Tensor]
) -> Sequence[LayerResults | None]:
    """Return the tensors for the results of each direction of each layer; None for new ones.

    `output` is of a single step, (..., B, hidden), and `lasts` as in `new_lasts`.
    """
    if not lasts:
        return [None] * call.runs
    plane = lasts[0].shape[1], call.heads, call.dim
    found = [LayerResults(None, [s[i].view(plane) for s in lasts]) for i in range(call.parts)]
    if output is not None:
        found[-1] = found[-1]._replace(output=output.view(1, *plane))
    return found


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


def joint_weights(weights: Sequence[LayerWeights], moves: Moves) -> list[LayerWeights]:
    """Return the weights of each layer, of all heads, from those of each direction."""
    return [_both(*pair, moves) for pair in zip(weights[::2], weights[1::2], strict=True)]


def _both(ahead: LayerWeights, behind: LayerWeights, moves: Moves) -> LayerWeights:
    def stack(name: str, axis: int) -> Tensor | None:
        one, other = getattr(ahead, name), getattr(behind, name)
        return None if one is None else moves.cat((one, other), axis)

    W = None
    if ahead.W is not None and behind.W is not None:
        # In memory as the product reads it, (2 N, D, Gx, input): it is not copied once more.
        rows = [own.permute(1, 2, 0, 3) for own in (ahead.W, behind.W)]
        W = moves.cat(rows, 0).permute(2, 0, 1, 3)
    params = [moves.cat(pair, 0) for pair in zip(ahead.params, behind.params, strict=True)]
    return ahead._replace(
        W=W, R=stack("R", 1), b=stack("b", 1), R_diag=stack("R_diag", 1), params=tuple(params)
    )


def joint_states(states: Sequence[Tensor], moves: Moves) -> list[Tensor]:
    """Return each state as (layers, B, both hidden), from (layers * directions, B, hidden)."""
    found = []
    for state in states:
        count, batch, hidden = state.shape
        pairs = state.reshape(count // 2, 2, batch, hidden).transpose(1, 2)
        found.append(moves.packed(pairs).view(count // 2, batch, 2 * hidden))
    return found


def joint_ragged(ragged: Ragged | None, moves: Moves) -> Ragged | None:
    """Return lengths and resets with reset values of all heads: (layers, …, both hidden)."""
    if ragged is None or ragged.reset_to is None:
        return ragged
    values = [moves.cat((v[0::2], v[1::2]), v.ndim - 1) for v in ragged.reset_to]
    return ragged._replace(reset_to=values)


def split_resets(gradient: Tensor | None) -> Tensor | None:
    """Return the gradients of reset values of each direction, from those of `joint_ragged`."""
    if gradient is None:
        return None
    pairs = gradient.view(*gradient.shape[:-1], 2, gradient.shape[-1] // 2)
    return pairs.movedim(-2, 1).flatten(0, 1)


def split_gradients(layer: SomeTensors) -> list[Tensor | None]:
    """Return the gradients of weights of both directions, in turn, from those of all heads."""
    found: list[Tensor | None] = []
    for direction in (0, 1):
        for place, tensor in enumerate(layer):
            # Heads are the second axis, and the first one of params.
            axis = 1 if place < 4 else 0
            found.append(None if tensor is None else tensor.chunk(2, axis)[direction])
    return found
