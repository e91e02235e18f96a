"""Both directions of a layer as one call: of twice the heads, of which the second half is reversed.

Weights and states are stacked over heads, in each forward and again in its backward. The inputs of
all heads are one product, and their states lie as the output of the layer has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...call.forms import LayerWeights
from ...call.ragged import Ragged
from ...call.tensors import SomeTensors
from ...targets.by_torch import Moves


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
