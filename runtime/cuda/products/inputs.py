"""Products of a module's input with its weights on a GPU, and their gradients."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...call.requests import InputBackward
from ...program.multiplier import Multiplier, product_added
from .few_rows import few_rows, takes_few_rows
from .multiply import multiplier
from .rearrange import Job, in_order, new_of_heads, put_in_order, rearrange

# Where rows are fewer by this factor than features, results are put in order in place of weights:
# few numbers of a row are neighbours then, so each takes longer than one of the weights.
_FEW = 16


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Return the wx (B, T, N, D, Gx) of a module's input, by operations that autograd follows."""
    return _as_wx(F.linear(x, _rows_of(weight)), x, weight)


def project_at(x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
    """Return the wx of `project` at the precision of a call, where autograd need not follow."""
    flat, multiplies = x.reshape(x.shape[0] * x.shape[1], x.shape[2]), multiplier(x.dtype, tf32)
    if takes_few_rows(flat, weight, tf32):
        return _as_wx(few_rows(flat, weight), x, weight)
    if _FEW * len(flat) <= x.shape[2]:
        found = _in_order_of_wx(flat, weight, multiplies)
        if found is not None:
            return _as_wx(found, x, weight)
    return _as_wx(multiplies.mm(flat, packed_rows(weight).t()), x, weight)


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


def _in_order_of_wx(flat: Tensor, weight: Tensor, multiplies: Multiplier) -> Tensor | None:
    """Return products of rows with weights as these lie, put in wx's order; None if they have gaps.

    Weights are as many numbers per feature as results are per row.
    """
    *axes, last = sorted(range(4), key=weight.stride, reverse=True)
    rows = weight.permute(*axes, last)
    if last != 3 or not rows.is_contiguous() or weight.permute(1, 2, 0, 3).is_contiguous():
        return None
    found = multiplies.mm(flat, rows.view(-1, weight.shape[3]).t())
    places = [1 + axes.index(axis) for axis in (1, 2, 0)]
    return put_in_order(found.view(-1, *rows.shape[:3]).permute(0, *places)).flatten(1)


def _rows_of(weight: Tensor) -> Tensor:
    """Return the input weights in the order of wx: (N * D * Gx, input)."""
    gates, heads, dim, size = weight.shape
    return weight.permute(1, 2, 0, 3).reshape(heads * dim * gates, size)


def _as_wx(rows: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    gates, heads, dim, _ = weight.shape
    return rows.view(x.shape[0], x.shape[1], heads, dim, gates).transpose(0, 1)
