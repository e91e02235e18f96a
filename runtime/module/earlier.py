"""Weights as earlier versions kept them: gate by gate, (gates, N, D, features) or (gates, N, D).

A module takes them from a state dict or a pickle and puts their rows in order. Their shapes have
more axes than those of today, so nothing is reordered twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import TensorError
from ..call.forms import Named, to_rows

# The names of the tensors that a weight may be computed from and that have its shape: those of
# torch.nn.utils.prune and torch.nn.utils.parametrize.
_NAMES = ("{}", "{}_orig", "{}_mask", "parametrizations.{}.original")

# What a module pickled before there were these options has.
OPTIONS_SINCE = {"precision": None, "bidirectional": False, "layers": "auto", "proj_size": 0}


def reordered(named: Named, weight: Any) -> Any:
    """Return a weight of an earlier version in rows; anything else as it is."""
    if named.gates is None or not isinstance(weight, Tensor) or weight.shape != named.by_gate:
        return weight
    return to_rows(weight)


def reorder_state_dict(weights: Iterable[Named], state_dict: Any, prefix: str) -> None:
    """Put the rows of weights of earlier versions in order, in place."""
    for named in weights:
        for name in _NAMES:
            key = prefix + name.format(named.attribute)
            if key in state_dict:
                state_dict[key] = reordered(named, state_dict[key])


def reorder_module(module: nn.Module, weights: Iterable[Named]) -> None:
    """Put the rows of the weights of a module from an earlier version in order, in place."""
    for named in weights:
        for tensor in _tensors_of(module, named):
            tensor.data = reordered(named, tensor.data)


def _tensors_of(module: nn.Module, named: Named) -> list[Tensor]:
    """Return the parameters and buffers of a module that a weight is, or is computed from."""
    found = []
    for name in _NAMES:
        *path, last = name.format(named.attribute).split(".")
        owner: Any = module
        for each in path:
            owner = None if owner is None else owner._modules.get(each)
        for own in () if owner is None else (owner._parameters, owner._buffers):
            if isinstance(own.get(last), Tensor):
                found.append(own[last])
    return found


def upgrade_optimizer_state(optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
    """Put the moments of an optimizer from an earlier version in the order of today's weights.

    Earlier versions kept the weights of `rnnc.RNN` gate by gate: `weight_hh_l{k}` was (Gr, N, D, D)
    and is (N · Gr · D, D), with rows in the order head, gate, unit. `load_state_dict` of a module
    reorders its weights by itself. An optimizer does not know which weights it moves. So call this
    once its `load_state_dict` has loaded what an earlier version saved: it reorders `exp_avg`,
    `momentum_buffer` and whatever else has the shape of a weight. A state of today stays as it is.

    Args:
        optimizer: with the parameters of the module, after its `load_state_dict`.
        module: an `rnnc.RNN`, or a module that has some.

    Raises:
        TensorError: a state of a weight has neither the weight's shape nor the one of earlier
            versions, so that its order is unknown; then nothing is changed.

    Example:
        >>> import torch, rnnc
        >>> rnn = rnnc.RNN(rnnc.cells.gru, 4, 8)
        >>> optimizer = torch.optim.Adam(rnn.parameters())
        >>> rnnc.upgrade_optimizer_state(optimizer, rnn)     # after optimizer.load_state_dict(...)
    """
    changes: list[tuple[dict[str, Any], str, Tensor]] = []
    for name, part in module.named_modules():
        for named in getattr(part, "_in_order", ()) if hasattr(part, "_form") else ():
            if named is None or named.gates is None:
                continue
            for tensor in _tensors_of(part, named):
                state = optimizer.state.get(tensor, {})
                for key, value in state.items():
                    if not isinstance(value, Tensor) or _is_of_today(value, tensor):
                        continue
                    if value.shape != named.by_gate:
                        raise _state_error(
                            key, f"{name}.{named.attribute}".strip("."), value, named
                        )
                    changes.append((state, key, to_rows(value)))
    for state, key, value in changes:
        state[key] = value


def _is_of_today(state: Tensor, weight: Tensor) -> bool:
    """Return True for a state in the shape of today's weight, or summed over some of its axes."""
    pairs = zip(state.shape, weight.shape, strict=False)
    return not state.ndim or (
        state.ndim == weight.ndim and all(one in (1, size) for one, size in pairs)
    )


def _state_error(key: str, weight: str, value: Tensor, named: Named) -> TensorError:
    return TensorError(
        f"the optimizer's {key} of {weight}",
        f"shape {tuple(value.shape)}",
        f"{named.shape}, or {named.by_gate} of an earlier version",
        "a new optimizer: the order of such a state is unknown",
    )
