"""Transforms of torch that kernels cannot follow: the reference loop can."""

from __future__ import annotations

import torch

from ...errors import TransformError
from ..call.marks import constant_in_graphs
from ..call.plain import compiled_transform, is_wrapped, transform_of
from ..call.tensors import SomeTensors
from ..process.caller import warn_once

# The targets of this package; torch's operators dispatch on the type of their tensors' device.
OPERATOR_TARGETS = ("cpu", "cuda")


def needs_reference(backend: str, tensors: SomeTensors) -> bool:
    """Return True if a call must take the reference, for a transform that kernels cannot follow.

    With the backend "auto" the reference serves, which is said once. Any other backend names
    kernels, and they are refused by a `TransformError`; so is `torch.jit.trace` in any case.
    """
    if torch.compiler.is_compiling():
        return bool(_compiled_needs_reference(backend))
    return _needs_reference(backend, transform_of(tensors))


@constant_in_graphs
def _compiled_needs_reference(backend: str) -> bool:
    return _needs_reference(backend, compiled_transform())


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


def check_gradients(gradients: SomeTensors) -> None:
    """Refuse gradients of which each is a batch: of `is_grads_batched`, `vectorize` or `vmap`."""
    if any(is_wrapped(g) for g in gradients):
        raise refused("a batch of gradients at once (vmap, is_grads_batched or vectorize=True)")
