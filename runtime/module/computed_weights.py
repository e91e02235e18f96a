"""Weights of a module that are not parameters: they are computed from others at every call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from ...errors import TensorError
from ..call.named import Named
from .weights import weight_of


@contextmanager
def drawn_anew(module: nn.Module, named: Named) -> Iterator[Tensor]:
    """Give a weight to be changed in place; at the end it is set, where it is no parameter."""
    weight = weight_of(module, named, None)
    if isinstance(module._parameters.get(named.attribute), nn.Parameter):
        yield weight
        return
    drawn = weight.detach().clone()
    yield drawn
    _replace_weight(module, named.attribute, drawn)


def _replace_weight(module: nn.Module, name: str, value: Tensor) -> None:
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
