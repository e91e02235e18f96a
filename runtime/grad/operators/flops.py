"""Counts of the operations that the products take, for `torch.utils.flop_counter`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from ...call.forms import weights_from
from ...call.settings import CallText, read_call
from . import call as _call  # noqa: F401  (defines rnnc::call)

Shape = Sequence[int]


@register_flop_formula(torch.ops.rnnc.call)
def _forward(tensors: Sequence[Shape], text: str, **_: Any) -> int:
    written = read_call(text)
    rows = _rows(written, tensors[0])
    return sum(_product(rows, own.W) + _product(rows, own.R) for own in _weights(written, tensors))


@register_flop_formula(torch.ops.rnnc.call_backward)
def _backward(
    gradients: Any,
    tensors: Sequence[Shape],
    results: Sequence[Shape],
    needs: Sequence[bool],
    text: str,
    **_: Any,
) -> int:
    """Count those of the gradients of all inputs; the forward's too if gates were not saved."""
    written, total = read_call(text), 0
    rows = math.prod(results[0][:2])
    if len(tensors) < len(needs):  # the backward does not read wx
        tensors = [(), *tensors]
    again = rows > 0 and results[-1][0] == 0
    wanted = _by_layer(written, written.spread(needs, False))
    directions = len(written.settings.choices)
    for i, (own, needed) in enumerate(zip(_weights(written, tensors), wanted, strict=True)):
        below = needs[0] or i >= directions
        total += (below + bool(needed.W) + again) * _product(rows, own.W)
        total += (2 + again) * _product(rows, own.R)
    return total


def _rows(written: CallText, x: Shape) -> int:
    """Return the rows of all steps of a call."""
    ragged = written.asked.ragged
    return int(x[0] if ragged is not None and ragged.packed else x[0] * x[1])


def _weights(written: CallText, tensors: Sequence[Any]) -> Any:
    return _by_layer(written, written.spread(tensors, None))


def _by_layer(written: CallText, flat: Sequence[Any]) -> Any:
    last = len(flat) - written.asked.drawn
    parts = written.settings.layers * len(written.settings.choices)
    return weights_from(flat[last - len(written.present) : last], parts)


def _product(rows: int, weight: Shape | None) -> int:
    """Count the products of so many rows with W or R, (G, N, D, input) or (N * G * D, input)."""
    return 0 if weight is None else 2 * rows * math.prod(weight)
