"""Counts of the operations that the products take, for `torch.utils.flop_counter`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from ..call.layers import weights_from
from . import operators, schemas  # noqa: F401  (`operators` defines rnnc::scan)
from .traced import operators as _operators  # noqa: F401  (defines rnnc::rnn)
from .traced.schemas import Options

Shape = Sequence[int]


@register_flop_formula(torch.ops.rnnc.scan)
def _forward(*arguments: Any, **_: Any) -> int:
    shapes: Any = schemas.from_scan(arguments)[0]
    return _products(shapes.wx[0] * shapes.wx[1], shapes.R)


@register_flop_formula(torch.ops.rnnc.scan_backward)
def _backward(d_states: Any, d_last: Any, *arguments: Any, **_: Any) -> int:
    """Count those of the gradients of states and R; the forward's too if gates were not saved."""
    shapes: Any = schemas.from_backward(arguments[:8])
    steps = shapes.saved[0] if shapes.wx is None else shapes.wx[1]
    return (2 if shapes.wx is None else 3) * _products(
        steps * shapes.initial_states[0][0], shapes.R
    )


@register_flop_formula(torch.ops.rnnc.rnn)
def _forward_of_layers(
    x: Shape, states: Any, weights: Any, masks: Any, keep: bool, *others: Any, **_: Any
) -> int:
    rows = x[0] * x[1]
    parts = _by_name(Options(*others), weights)
    return sum(_inputs(rows, own.W) + _products(rows, own.R) for own in parts)


@register_flop_formula(torch.ops.rnnc.rnn_backward)
def _backward_of_layers(
    d_y: Any,
    d_last: Any,
    x: Shape,
    states: Sequence[Shape],
    weights: Any,
    masks: Any,
    results: Sequence[Shape],
    needs: Sequence[bool],
    *others: Any,
    **_: Any,
) -> int:
    """Count those of the gradients of all inputs; the forward's too if gates were not saved."""
    options, rows, total = Options(*others), x[0] * x[1], 0
    first, again = 1 + len(states), rows > 0 and results[-1][0] == 0
    parts = _by_name(options, weights)
    wanted = weights_from(list(options.spread(needs[first:], False)), options.parts)
    for i, (own, needed) in enumerate(zip(parts, wanted, strict=True)):
        below = needs[0] or i >= options.directions
        total += (below + bool(needed.W) + again) * _inputs(rows, own.W)
        total += (2 + again) * _products(rows, own.R)
    return total


def _by_name(options: Options, weights: Any) -> Any:
    return weights_from(list(options.spread(weights, None)), options.parts)


def _inputs(rows: int, W: Shape | None) -> int:
    """Count the products of so many rows with W, (Gx, N, D, input) or (N * Gx * D, input)."""
    return 0 if W is None else 2 * rows * math.prod(W)


def _products(rows: int, R: Shape | None) -> int:
    """Count the products of so many rows with R, (Gr, N, D, D) or (N * Gr * D, D)."""
    return 0 if R is None else 2 * rows * math.prod(R)
