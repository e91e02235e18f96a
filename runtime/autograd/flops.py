"""How many operations the recurrent products take, for `torch.utils.flop_counter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from . import operators as ops  # noqa: F401  (there the operators are made)

Shape = Sequence[int]


@register_flop_formula(torch.ops.rnnc.scan)
def _forward(wx: Shape, R: Shape | None, *_: Any, **__: Any) -> int:
    return _products(wx[0] * wx[1], R)


@register_flop_formula(torch.ops.rnnc.scan_backward)
def _backward(
    d_states: Any,
    d_last: Any,
    wx: Shape | None,
    b: Shape | None,
    R: Shape | None,
    R_diag: Shape | None,
    params: Any,
    initial: Sequence[Shape],
    states: Any,
    kept: Shape,
    *_: Any,
    **__: Any,
) -> int:
    """The gradients of the states and of R; the products of the forward, where it kept none."""
    steps = kept[0] if wx is None else wx[1]
    return (2 if wx is None else 3) * _products(steps * initial[0][0], R)


def _products(rows: int, R: Shape | None) -> int:
    """Of so many rows with R (Gr, N, D, D): a multiplication and an addition an element."""
    if R is None:
        return 0
    pairs, heads, dim, _ = R
    return 2 * rows * pairs * heads * dim * dim
