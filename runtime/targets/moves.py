"""Copies of tensors into new ones, which a target may do all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Moves(Protocol):
    """Maker of tensors without gaps from others; a context, at whose end they are filled."""

    def __enter__(self) -> Moves:
        """Begin."""

    def __exit__(self, *error: object) -> None:
        """Fill what was made."""

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return the tensors beside each other on an axis."""

    def packed(self, tensor: Tensor) -> Tensor:
        """Return the tensor without gaps; itself, if it has none."""


class TorchMoves:
    """Copies by the operators of torch, one after the other."""

    def __enter__(self) -> TorchMoves:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: all copies are filled."""

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return the tensors beside each other on an axis."""
        return torch.cat(list(tensors), axis)

    def packed(self, tensor: Tensor) -> Tensor:
        """Return the tensor without gaps; itself, if it has none."""
        return tensor.contiguous()


TORCH_MOVES = TorchMoves()
