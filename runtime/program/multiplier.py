"""Multiplication of matrices for a call: by torch, or by a target at the precision of the call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Multiplier:
    """Products of matrices, (rows, K) (K, columns), or of equally many pairs of them, by torch.

    A target may have others.

    Attributes:
        tf32: whether factors of float32 may be rounded to TF32. torch's flags decide that for its
            own products; sums are taken as if they rounded nothing.
    """

    tf32 = False

    def mm(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the product."""
        return torch.mm(a, b) if a.ndim == 2 else torch.bmm(a, b)

    def mm_into(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Write the product to a tensor whose last two axes have no gaps."""
        return torch.mm(a, b, out=to) if a.ndim == 2 else torch.bmm(a, b, out=to)

    def add_mm(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Add the product to such a tensor, in place."""
        return to.addmm_(a, b) if a.ndim == 2 else to.baddbmm_(a, b)


TORCH = Multiplier()


def product_added(
    multiplier: Multiplier, to: Tensor | None, a: Tensor, b: Tensor, shape: Sequence[int]
) -> Tensor:
    """Return a product of two matrices in another shape, added to a contiguous `to` if given."""
    if to is None:
        return multiplier.mm(a, b).view(shape)
    multiplier.add_mm(to.view(a.shape[0], b.shape[1]), a, b)
    return to
