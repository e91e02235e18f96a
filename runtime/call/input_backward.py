"""The backward of the product of a layer's input and its weight, with its tensors."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class InputBackward(NamedTuple):
    """Backward of the product of a layer's input and its weight.

    Attributes:
        d_wx: as a target's `backward` gives it.
        x: (T, B, input).
        weight: (Gx, N, D, input).
        wanted: whether the gradients of x and of the weight are wanted.
        tf32: whether products may round factors of float32 to TF32.
        d_x: to what the gradient of x is added in place; None for a new tensor.
        by_head: whether the gradient of the weight lies head by head in memory, which saves a copy.
    """

    d_wx: Tensor
    x: Tensor
    weight: Tensor
    wanted: tuple[bool, bool]
    tf32: bool
    d_x: Tensor | None = None
    by_head: bool = False
