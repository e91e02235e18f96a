"""Products of a module's input with its weights on a GPU, and their gradients."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...call.requests import InputBackward
from ...program.multiplier import product_added
from .few_rows import few_rows, takes_few_rows
from .multiply import multiplier
from .rearrange import Job, in_order, new_of_heads, put_in_order, rearrange


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Return the wx (B, T, N, D, Gx) of a module's input, by operations that autograd follows."""
    return _as_wx(F.linear(x, _rows_of(weight)), x, weight)


def project_at(x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
    """Return the wx of `project` at the precision of a call, where autograd need not follow."""
    flat = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
    if takes_few_rows(flat, weight):
        return _as_wx(few_rows(flat, weight, tf32), x, weight)
    return _as_wx(multiplier(x.dtype, tf32).mm(flat, packed_rows(weight).t()), x, weight)


def project_gradients(backward: InputBackward) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of `project`, of x and of the weight; None where one is not wanted."""
    d_wx, x, weight, wanted, tf32, d_x, by_head = backward
    gates, heads, dim, size = weight.shape
    count = x.shape[0] * x.shape[1]
    d_rows = d_wx.transpose(0, 1).reshape(count, heads * dim * gates)
    multiplies, d_W = multiplier(x.dtype, tf32), None
    jobs: list[Job] = []
    if wanted[1]:
        product = multiplies.mm(d_rows.t(), x.reshape(count, size))
        product = product.view(heads, dim, gates, size).permute(2, 0, 1, 3)
        d_W = product
        if gates > 1:
            d_W = new_of_heads(x, product.shape, 1, by_head)
            jobs.append(Job(d_W, product[None]))
    if wanted[0]:
        rows, left = in_order(weight.permute(1, 2, 0, 3))
        jobs += left
    rearrange(jobs)
    if wanted[0]:
        d_x = product_added(multiplies, d_x, d_rows, rows.view(-1, size), x.shape)
    return d_x, d_W


def packed_rows(weight: Tensor) -> Tensor:
    """Return weights (Gx, N, D, input) in wx's order, (N * D * Gx, input), without autograd."""
    return put_in_order(weight.permute(1, 2, 0, 3)).view(-1, weight.shape[3])


def _rows_of(weight: Tensor) -> Tensor:
    """Return the input weights in the order of wx: (N * D * Gx, input)."""
    gates, heads, dim, size = weight.shape
    return weight.permute(1, 2, 0, 3).reshape(heads * dim * gates, size)


def _as_wx(rows: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    gates, heads, dim, _ = weight.shape
    return rows.view(x.shape[0], x.shape[1], heads, dim, gates).transpose(0, 1)
