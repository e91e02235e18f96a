"""Weights of a module that are not parameters: they are computed from others at every call."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from ...errors import TensorError


def replace_weight(module: nn.Module, name: str, value: Tensor) -> None:
    """Set a weight through the tensors that it is computed from; raise if their kind is unknown."""
    origin = module._parameters.get(f"{name}_orig")
    if is_parametrized(module, name):
        setattr(module, name, value)  # the parametrization's right_inverse
    elif origin is not None:  # torch.nn.utils.prune, which masks it at every call
        with torch.no_grad():
            origin.copy_(value)
        mask = module._buffers.get(f"{name}_mask")
        setattr(module, name, origin if mask is None else origin * mask)
    else:
        raise TensorError(
            name,
            "a weight that is no parameter, and no parametrization of torch",
            "a parameter, or one that torch.nn.utils.parametrize computes",
            "reset_parameters() first, then what replaces the weight",
        )
