"""Torch's own forward on the parameters of a module, where kernels cannot serve."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from .base import OnKernels


from ..call.marks import outside_of_graphs


def run_torch(module: OnKernels, input: Any, hx: Any) -> Any:
    """Run the forward of torch's class."""
    forward: Any = module.torch_class.forward
    if torch.compiler.is_compiling() or not getattr(input, "is_cuda", False):
        return forward(module, input, hx)
    with warnings.catch_warnings():
        # Parameters stay where they are; flatten_parameters would move them.
        warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous")
        return forward(module, input, hx)


def as_torch(module: Any) -> Any:
    """Return a module of torch's own class with the same parameters and attributes."""
    made = object.__new__(module.torch_class)
    made.__dict__.update(module.__getstate__())
    if isinstance(made, nn.RNNBase):
        # As `_init_flat_weights`, which would also move the parameters on a GPU.
        weights = [getattr(made, name, None) for name in made._flat_weights_names]
        made._flat_weights = weights
        made._flat_weight_refs = [None if w is None else weakref.ref(w) for w in weights]
    return made


def _call(module: Any, input: Any, hx: Any, masks: dict[str, Any]) -> Any:
    """Run a module's forward, of which Dynamo traces nothing."""
    return module.forward(input, hx, **masks)


between_graphs = outside_of_graphs(_call)
