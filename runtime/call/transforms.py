"""Transforms of torch that a call is under, and those of them that kernels follow."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .marks import constant_in_graphs
from .plain import any_tangent, is_watched

_FUNCTORCH = torch._C._functorch
_ONNX = "ONNX, whose graph holds a loop for exactly as many steps as the example has"


def transform_of(tensors: Sequence[Tensor | None]) -> tuple[str, bool] | None:
    """Return what transforms a call, and whether it is refused whatever the backend."""
    if any_tangent(tensors):
        return _forward_mode()
    if not is_watched():
        return None
    if torch._C._get_tracing_state() is not None:
        return (_ONNX, False) if torch.onnx.is_in_onnx_export() else ("torch.jit.trace", True)
    return None if kernels_follow() else _functorch()


def is_transformed(tensors: Sequence[Tensor | None]) -> bool:
    """Return True if a call is under any transform of torch, also one that kernels follow."""
    if torch.compiler.is_compiling():
        return bool(_compiled_is_transformed())
    return transform_of(tensors) is not None or _functorch() is not None


@constant_in_graphs
def _compiled_is_transformed() -> bool:
    return compiled_transform() is not None


def compiled_transform() -> tuple[str, bool] | None:
    """Return `transform_of` where a compiler traces, which enters transforms itself."""
    if torch.onnx.is_in_onnx_export():
        return _ONNX, False
    return _functorch() or _forward_mode()


def kernels_follow() -> bool:
    """Return True if all transforms around a call are `vmap`, and `grad` or `vjp` once."""
    kinds = _FUNCTORCH.TransformType
    keys = [level.key() for level in _FUNCTORCH.get_interpreter_stack() or ()]
    followed = all(key in (kinds.Grad, kinds.Vmap) for key in keys)
    return bool(keys) and followed and keys.count(kinds.Grad) <= 1


def _functorch() -> tuple[str, bool] | None:
    top = _FUNCTORCH.peek_interpreter_stack()
    if top is None or top.key() == _FUNCTORCH.TransformType.Functionalize:
        return None
    return f"torch.func ({top.key().name})", False


def _forward_mode() -> tuple[str, bool] | None:
    if forward_ad._current_level < 0:
        return None
    return "forward-mode derivatives (torch.autograd.forward_ad)", False
