"""Transforms of torch that kernels cannot follow: the reference loop can."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ...errors import TransformError
from ..call.marks import constant_in_graphs
from ..call.plain import any_tangent, is_watched, is_wrapped
from ..process.caller import warn_once

# The targets of this package; torch's operators dispatch on the type of their tensors' device.
OPERATOR_TARGETS = ("cpu", "cuda")
_FUNCTORCH = torch._C._functorch


def needs_reference(backend: str, tensors: Sequence[Tensor | None]) -> bool:
    """Return True if a call must take the reference, for a transform that kernels cannot follow.

    With the backend "auto" the reference serves, which is said once. Any other backend names
    kernels, and they are refused by a `TransformError`; so is `torch.jit.trace` in any case.
    """
    if torch.compiler.is_compiling():
        return bool(_compiled_needs_reference(backend))
    return _needs_reference(backend, _transform(tensors))


@constant_in_graphs
def _compiled_needs_reference(backend: str) -> bool:
    """Answer while a compiler traces, which enters and guards the transforms themselves."""
    if torch.onnx.is_in_onnx_export():
        return _needs_reference(backend, (_ONNX, False))
    return _needs_reference(backend, _functorch() or _forward_mode())


def _needs_reference(backend: str, found: tuple[str, bool] | None) -> bool:
    if found is None:
        return False
    name, always = found
    if always or backend != "auto":
        raise refused(name)
    warn_once(f"rnnc has no kernels for {name}: it runs the reference loop")
    return True


def check_has_operators(target: str) -> None:
    """Refuse a call that needs operators of torch, for a target from outside this package."""
    if target not in OPERATOR_TARGETS:
        raise TransformError(
            f'backend="{target}"',
            "torch.compile, a mode, a transform, a tensor subclass or a second derivative",
            f"plain tensors and a first derivative; {', '.join(OPERATOR_TARGETS)} have operators",
            'backend="auto" or backend="reference"',
        )


def refused(name: str) -> TransformError:
    """Return the error that names a transform."""
    return TransformError(
        "a call under a transform of torch",
        name,
        "a plain call, or a first derivative by backward(): the kernels compute no others",
        'backend="reference", a loop of torch operations',
    )


def check_gradients(gradients: Sequence[Tensor | None]) -> None:
    """Refuse gradients of which each is a batch: of `is_grads_batched`, `vectorize` or `vmap`."""
    if any(is_wrapped(g) for g in gradients):
        raise refused("a batch of gradients at once (vmap, is_grads_batched or vectorize=True)")


def _transform(tensors: Sequence[Tensor | None]) -> tuple[str, bool] | None:
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
    return _transform(tensors) is not None or _functorch() is not None


@constant_in_graphs
def _compiled_is_transformed() -> bool:
    return bool(torch.onnx.is_in_onnx_export() or _functorch() or _forward_mode())


def kernels_follow() -> bool:
    """Return True if kernels follow all transforms of torch.func that a call is under.

    They are `vmap`, and `grad` or `vjp` once, around or inside of it.
    """
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


_ONNX = "ONNX, whose graph holds a loop for exactly as many steps as the example has"
