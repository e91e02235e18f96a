"""Copies of tensors into new ones, which a target may do all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor


class Moves:
    """Maker of tensors without gaps; a context, at whose end they are filled, here as made."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Fill what was made."""

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return the tensors beside each other on an axis."""
        return torch.cat(list(tensors), axis)

    def packed(self, tensor: Tensor) -> Tensor:
        """Return the tensor without gaps; itself, if it has none."""
        return tensor.contiguous()


TORCH_MOVES = Moves()
