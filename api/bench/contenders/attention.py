"""Causal attention, which reads all earlier steps at once: torch's own kernels."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..inputs import Call, Inputs
from ..rows import Row
from .contender import Contender

HEAD_DIM = 64


def attention(row: Row, dtype: str) -> Iterator[Contender]:
    """`scaled_dot_product_attention` over as many units as the row has."""
    heads, dim = _heads(row)
    note = f"another function: attention to all earlier steps, {heads} x {dim}; q, k and v ready"
    yield Contender("torch SDPA", dtype, False, "wx ready", _attention, note=note)


def _heads(row: Row) -> tuple[int, int]:
    """Heads of 64 units, for which its kernels are fastest; the row's if that leaves a rest."""
    if row.hidden % HEAD_DIM:
        return row.heads, row.head_dim
    return row.hidden // HEAD_DIM, HEAD_DIM


def _attention(inputs: Inputs) -> Call:
    row = inputs.row
    sizes = (row.batch, row.steps, *_heads(row))
    # (B, heads, T, units), in memory as a product with the input leaves them.
    q, k, v = (
        inputs.draw(*sizes, scale=1, grad=False).transpose(1, 2).requires_grad_() for _ in range(3)
    )
    seed = inputs.d_h.transpose(0, 1).reshape(sizes).transpose(1, 2)

    def run() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Call(run, seed, [q, k, v])
