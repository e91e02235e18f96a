"""Weights of a layer whose output is projected."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...call.plain import without_autocast
from ...call.tensors import SomeTensors


class Part(NamedTuple):
    """Weights of one direction of a layer.

    Attributes:
        recurrent: R', (heads * gates * D, P), which multiplies h.
        matrix: P of each head, (heads * P, D).
        others: the parameters besides both, in their order. In place of R' there are the matrices
            that multiply something else than h, (heads * gates * D, D), or None.
        order: of all matrices, as in `Projection`.
    """

    recurrent: Tensor
    matrix: Tensor
    others: list[Tensor | None]
    order: tuple[int, ...] = ()

    def whole(self, heads: int) -> list[Tensor | None]:
        """Return the parameters of a direction that is not projected: R = R' P replaces R'."""
        # In float32 at least, and rounded once.
        wide = torch.promote_types(self.recurrent.dtype, torch.float32)
        device = self.recurrent.device.type
        # Torch has no autocast of "meta"; a compiled call of 2.11 cannot ask which devices have it.
        with nullcontext() if device == "meta" else without_autocast(device):
            R = _product(self.recurrent.to(wide), self.matrix.to(wide), heads)
        W, own, *others = self.others
        R = R.to(self.recurrent.dtype)
        if own is not None:
            by_head = (heads, -1, R.shape[1], R.shape[1])
            both = torch.cat((R.view(by_head), own.view(by_head)), 1)
            R = both[:, list(self.order)].view(-1, R.shape[1])
        return [W, R, *others]


def parts_of(weights: SomeTensors, count: int, order: tuple[int, ...] | None = None) -> list[Part]:
    """Return the weights of each direction, of which each has `count`: W, R', others and P.

    With the `order` of a projection the matrices that do not multiply h, or None, come before P.
    """
    found = []
    for first in range(0, len(weights), count):
        W, recurrent, *others, matrix = weights[first : first + count]
        own = None
        if order is not None:  # torch 2.11 follows no `pop` in a compiled call
            *others, own = others
        assert recurrent is not None
        assert matrix is not None
        found.append(Part(recurrent, matrix, [W, own, *others], order or ()))
    return found


def _product(recurrent: Tensor, matrix: Tensor, heads: int) -> Tensor:
    """Return R' P of each head, (heads * gates * D, D)."""
    if heads == 1:
        return torch.mm(recurrent, matrix)
    size, dim = matrix.shape[0] // heads, matrix.shape[1]
    each = torch.bmm(recurrent.view(heads, -1, size), matrix.view(heads, size, dim))
    return each.view(-1, dim)


def projected(states: Tensor, matrix: Tensor, heads: int) -> Tensor:
    """Return P h~ of each head, from states (..., heads * D) and a matrix (heads * P, D)."""
    if heads == 1:
        return F.linear(states, matrix)
    outer = states.shape[:-1]
    each = states.reshape(-1, heads, matrix.shape[1]).transpose(0, 1)
    found = torch.bmm(each, matrix.view(heads, -1, matrix.shape[1]).transpose(1, 2))
    return found.transpose(0, 1).reshape(*outer, matrix.shape[0])
