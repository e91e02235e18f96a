"""The weights of a layer: their shapes, and the distributions that they start from."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...cellspec.cell import CellSpec


def weight_shapes(
    cell: CellSpec, input_size: int, heads: int, dim: int, bias: bool
) -> dict[str, tuple[int, ...]]:
    """The shapes of a layer's weights, by name.

    Args:
        cell: the cell.
        input_size: features of the layer's input.
        heads: of the layer.
        dim: units per head.
        bias: whether gates have biases.
    """
    counts = {
        "weight_ih": (len(cell.input_gates), (heads, dim, input_size)),
        "weight_hh": (len(cell.dense_pairs), (heads, dim, dim)),
        "weight_hd": (len(cell.diagonal_pairs), (heads, dim)),
        "bias": (len(cell.bias_gates) if bias else 0, (heads, dim)),
    }
    shapes = {name: (count, *rest) for name, (count, rest) in counts.items() if count}
    return shapes | {p.name: (heads, dim) for p in cell.params}


def initialize(cell: CellSpec, name: str, weight: Tensor) -> None:
    """Draw a weight anew, in place.

    Args:
        cell: the cell.
        name: of the weight.
        weight: is written.
    """
    if name == "weight_ih":
        bound = math.sqrt(3 / weight.shape[-1])
        weight.uniform_(-bound, bound)
    elif name == "weight_hh":
        # In float32 at least: torch has no QR factorisation in half precision.
        drawn = weight.to(torch.promote_types(weight.dtype, torch.float32))
        for matrix in drawn.flatten(0, 1):
            nn.init.orthogonal_(matrix)
        weight.copy_(drawn)
    elif name == "weight_hd":
        weight.uniform_(-1, 1)
    else:
        inits = {p.name: p.init for p in cell.params}
        weight.fill_(inits.get(name, 0.0))
