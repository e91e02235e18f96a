"""Calls of modules as nodes of a graph of `torch.fx`."""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from torch.fx import Proxy, Tracer

from ...errors import TensorError


def as_leaf(module: nn.Module, input: Proxy, *more: Any, **named: Any) -> Any:
    """Return a call of a module as one node of a graph of `torch.fx`, like one of torch's modules.

    The last of `more` are left out if they are None, and so are those of `named`.
    """
    tracer = cast(Tracer, input.tracer)
    path = tracer.path_of_module(module)
    if not path:
        raise TensorError(
            "torch.fx.symbolic_trace",
            f"an {type(module).__name__}, which is one node of a graph",
            "a module that holds it",
            "torch.fx.symbolic_trace(torch.nn.Sequential(module))",
        )
    while more and more[-1] is None:
        more = more[:-1]
    given = {name: value for name, value in named.items() if value is not None}
    return tracer.create_proxy("call_module", path, (input, *more), given)
