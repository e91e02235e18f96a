"""Copies of tensors into new ones, which a target may do all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from ..layers_call import LayerWeights


class Moves(Protocol):
    """Makes tensors without gaps from others; a context, at whose end they are filled."""

    def __enter__(self) -> Moves:
        """Begin."""

    def __exit__(self, *error: object) -> None:
        """Fill what was made."""

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors beside each other on an axis."""

    def packed(self, tensor: Tensor) -> Tensor:
        """The tensor without gaps; itself, if it has none."""


class TorchMoves:
    """The operators of torch, one after the other."""

    def __enter__(self) -> TorchMoves:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to do."""

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors beside each other on an axis."""
        return torch.cat(list(tensors), axis)

    def packed(self, tensor: Tensor) -> Tensor:
        """The tensor without gaps; itself, if it has none."""
        return tensor.contiguous()


TORCH_MOVES = TorchMoves()


def moves_of(target: object) -> Moves:
    """What copies tensors for calls on a target: the target's own way if it has one, or torch.

    Args:
        target: any.
    """
    own = getattr(target, "moves", None)
    found: Moves = TORCH_MOVES if own is None else own()
    return found


def packed_weights(target: object, weights: Sequence[LayerWeights]) -> list[LayerWeights]:
    """Weights of several heads as kernels read them: gate by gate, unless they take any strides.

    W is left to its product.

    Args:
        target: any.
        weights: of each direction of each layer.
    """
    if getattr(target, "reads_by_address", False):
        return list(weights)
    with moves_of(target) as moves:
        return [
            own._replace(
                R=None if own.R is None else moves.packed(own.R),
                b=None if own.b is None else moves.packed(own.b),
                R_diag=None if own.R_diag is None else moves.packed(own.R_diag),
            )
            for own in weights
        ]
