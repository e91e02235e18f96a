"""How many operations the recurrent products take, for `torch.utils.flop_counter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from . import operators, schemas  # noqa: F401  (`operators` defines rnnc::scan)

Shape = Sequence[int]


@register_flop_formula(torch.ops.rnnc.scan)
def _forward(*arguments: Any, **_: Any) -> int:
    shapes: Any = schemas.from_scan(arguments)[0]
    return _products(shapes.wx[0] * shapes.wx[1], shapes.R)


@register_flop_formula(torch.ops.rnnc.scan_backward)
def _backward(d_states: Any, d_last: Any, *arguments: Any, **_: Any) -> int:
    """The gradients of the states and of R; the forward's products too if gates were not saved."""
    shapes: Any = schemas.from_backward(arguments[:8])
    steps = shapes.saved[0] if shapes.wx is None else shapes.wx[1]
    return (2 if shapes.wx is None else 3) * _products(
        steps * shapes.initial_states[0][0], shapes.R
    )


def _products(rows: int, R: Shape | None) -> int:
    """The products of so many rows with R (Gr, N, D, D): two operations per element."""
    if R is None:
        return 0
    pairs, heads, dim, _ = R
    return 2 * rows * pairs * heads * dim * dim
