"""Checks of the tensors that a backward gets: those that autograd saved, and gradients.

Hooks on saved tensors (`torch.autograd.graph.saved_tensors_hooks`) may offload them, compress them
or return other tensors; kernels read them by their address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.errors import kind_of
from ...errors import TensorError
from ..call.plain import all_plain, check_memory, treats_itself
from ..program.seen import SavedKind


def as_left(saved: Sequence[Any], kinds: Sequence[SavedKind], device: torch.device) -> list[Any]:
    """Return saved tensors as kernels can read them, or raise a `TensorError` for a changed one."""
    return [
        None if kind is None else check_as_left(f"saved tensor {i}", tensor, *kind, device=device)
        for i, (tensor, kind) in enumerate(zip(saved, kinds, strict=True))
    ]


def check_as_left(
    name: str, tensor: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return a tensor as the forward left it, copied if kernels need it; any other is an error."""
    wanted = f"shape {tuple(shape)}, {dtype}, on {device}: what the forward left"
    found = _found(tensor, shape, dtype, device)
    if found is not None:
        raise TensorError(
            f"{name} of a backward",
            found,
            wanted,
            "saved_tensors_hooks whose unpack gives back what pack took",
        )
    assert isinstance(tensor, Tensor)
    if not torch._is_zerotensor(tensor):
        check_memory(name, tensor)
    if all_plain((tensor,)):
        return tensor
    return tensor.detach().as_subclass(Tensor).resolve_neg().clone()


def _found(
    tensor: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> str | None:
    """Return what is wrong with a tensor, for a message; None if nothing is."""
    if not isinstance(tensor, Tensor):
        return kind_of(tensor)
    if tensor.is_nested:
        return "a nested tensor"
    if tuple(tensor.shape) != tuple(shape):
        return f"shape {tuple(tensor.shape)}"
    if tensor.dtype != dtype:
        return f"dtype {tensor.dtype}"
    if tensor.device != device:
        return f"device {tensor.device}"
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}"
    if treats_itself(tensor):
        return kind_of(tensor)
    return None


def plain_gradients(gradients: Iterable[Tensor | None]) -> list[Tensor | None]:
    """Return incoming gradients, copied where kernels cannot read them in place."""
    return [g if g is None or all_plain((g,)) else g.resolve_neg().clone() for g in gradients]
