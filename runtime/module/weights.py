"""The weights of a layer: their shapes, initial distributions and present values."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...cellspec.cell import CellSpec
from ..check.module import check_weight_of_module


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


class Named(NamedTuple):
    """A weight that a layer was built with.

    Attributes:
        name: without the layer, `weight_ih` for example.
        attribute: of the module.
        shape: of the weight.
    """

    name: str
    attribute: str
    shape: tuple[int, ...]


def weight_of(module: nn.Module, named: Named, device: torch.device | None) -> Tensor:
    """A weight of a module: a parameter, or the tensor that has replaced it.

    Args:
        module: has the weight as an attribute.
        named: which one.
        device: where it must be, since kernels read it by its address; None for anywhere.

    Raises:
        TensorError: it is missing, or has another shape or device.
    """
    _, attribute, shape = named
    weight: Tensor | None = module._parameters.get(attribute)
    if weight is None:
        weight = getattr(module, attribute, None)
    if weight is None or weight.shape != shape or (device is not None and weight.device != device):
        weight = check_weight_of_module(attribute, weight, shape, device)
    return weight
