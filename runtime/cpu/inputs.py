"""Products of a module's input with its weights on a CPU, and their gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..call.requests import InputBackward
from ..program.multiplier import TORCH, product_added
from .linear import linear, rows_of


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Return the wx (B, T, N, D, Gx) of a module's input, by operations that autograd follows.

    x is (T, B, input), and the weight (Gx, N, D, input). The rows of the weight are permuted once
    per call; activations never are.
    """
    return _as_wx(F.linear(x, rows_of(weight)), weight)


def project_at(x: Tensor, weight: Tensor) -> Tensor:
    """Return the result of `project`, without autograd."""
    return _as_wx(linear(x, rows_of(weight)), weight)


def project_gradients(backward: InputBackward) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of `project`, of x and of the weight, by head."""
    d_wx, x, weight, wanted, _, d_x, _ = backward
    gates, heads, dim, size = weight.shape
    count = x.shape[0] * x.shape[1]
    d_rows = d_wx.permute(1, 0, 2, 4, 3).reshape(count, heads * gates * dim)
    d_W = None
    if wanted[0]:
        if d_x is None:
            d_x = linear(d_rows, rows_of(weight).t()).view(x.shape)
        else:
            product_added(TORCH, d_x, d_rows, rows_of(weight), x.shape)
    if wanted[1]:
        d_W = torch.mm(d_rows.t(), x.reshape(count, size))
        if heads == 1:
            return d_x, d_W.view(gates, 1, dim, size)
        d_W = d_W.view(heads, gates, dim, size).transpose(0, 1)
    return d_x, d_W


def _as_wx(rows: Tensor, weight: Tensor) -> Tensor:
    gates, heads, dim, _ = weight.shape
    return rows.view(*rows.shape[:2], heads, gates, dim).permute(1, 0, 2, 4, 3)
