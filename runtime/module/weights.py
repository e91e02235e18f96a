"""The weights of a layer: their shapes, initial distributions and present values."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def weights_of(
    module: nn.Module,
    wanted: Sequence[tuple[str, str, tuple[int, ...]]],
    device: torch.device | None,
) -> dict[str, Tensor]:
    """The weights of a layer by name: parameters, or the tensors that have replaced them.

    Args:
        module: has the weights as attributes.
        wanted: the name, attribute and shape of each weight.
        device: where the weights must be, since kernels read them by their address; None for
            anywhere.

    Raises:
        TensorError: a weight is missing, or has another shape or device.
    """
    found: dict[str, Tensor] = {}
    parameters = module._parameters
    for name, attribute, shape in wanted:
        weight: Tensor | None = parameters.get(attribute)
        if weight is None:
            weight = getattr(module, attribute, None)
        if (
            weight is None
            or weight.shape != shape
            or (device is not None and weight.device != device)
        ):
            weight = check_weight_of_module(attribute, weight, shape, device)
        found[name] = weight
    return found
