"""Checks of tensors that a kernel reads by their address, of modes, tracers and transforms.

A kernel reads a tensor's memory directly. That is wrong for a tensor whose values differ from its
memory: a view with the negative bit, a tensor of zeros without memory, a wrapper of a subclass or
of `torch.func`. Modes and tracers see only calls that go through torch's dispatcher. In these cases
the call uses the operators, which the dispatcher, modes and subclasses can handle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, overrides
from torch._C._dynamo.guards import TensorGuards
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext

from ...errors import TensorError
from .marks import constant_in_graphs

_included = torch._C._dispatch_tls_local_include_set
profiler_enabled = torch._C._autograd._profiler_enabled
_function_modes = torch._C._len_torch_function_stack
_mode_stack: Callable[[], list[Any]] = overrides._get_current_function_mode_stack
_unpack_dual: Callable[[Tensor], Any] = forward_ad.unpack_dual
_functorch = torch._C._functorch
_ONNX = "ONNX, whose graph holds a loop for exactly as many steps as the example has"
_CLASSES = frozenset((Tensor, torch.nn.Parameter))


def _bits(*names: str) -> int:
    """Return dispatch keys, packed into an integer as in torch."""
    bits = 0
    for name in names:
        bits |= torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)).raw_repr()
    return bits


# The keys that a thread adds to every call if no mode, tracer or transform is active.
_UNWATCHED = ~_bits("BackendSelect", "ADInplaceOrView")


def all_plain(tensors: Iterable[Tensor | None]) -> bool:
    """Return True if kernels can read all tensors by address: with memory, and no wrappers."""
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.__class__ not in _CLASSES or tensor.is_neg():
            return False
        try:
            if not tensor.data_ptr() and tensor.numel():
                return False  # zeros without memory, or freed memory
        except RuntimeError:  # a sparse tensor, or the wrapper of a transform
            return False
    return True


def check_memory(name: str, tensor: Tensor) -> None:
    """Refuse a tensor without memory; fully sharded modules free it between calls."""
    if tensor.numel() and not tensor.data_ptr():
        raise TensorError(
            name,
            f"a tensor of {tuple(tensor.shape)} without memory",
            "tensors with memory",
            "the call while the tensor has memory: for a sharded module, within its forward",
        )


def is_watched() -> bool:
    """Return True if a mode, tracer or transform of torch is active that must see the call.

    `with torch.device(...)` is a mode too, but it only affects the creation of tensors.
    """
    return bool(_included().raw_repr() & _UNWATCHED) or (
        bool(_function_modes()) and any(not isinstance(m, DeviceContext) for m in _mode_stack())
    )


def may_be_known() -> bool:
    """Return True if calls may be compared with earlier ones.

    A compiler traces the checks; the other two are no part of what an entry compares.
    """
    return not (
        torch.compiler.is_compiling() or _function_modes() or forward_ad._current_level >= 0
    )


def treats_itself(tensor: Tensor) -> bool:
    """Return True if the tensor's type defines what operators do with it (`__torch_dispatch__`)."""
    return type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__


def is_wrapped(tensor: Tensor | None) -> bool:
    """Return True if a tensor is the wrapper of a transform of torch, for example of `vmap`."""
    return tensor is not None and (
        _functorch.is_functorch_wrapped_tensor(tensor) or _functorch.is_legacy_batchedtensor(tensor)
    )


def is_mapped(tensor: Tensor) -> bool:
    """Return True if a `vmap` of torch maps a tensor, at any of the transforms around a call."""
    return any(map(_functorch.is_batchedtensor, unwrapped(tensor)))


def unwrapped(tensor: Tensor) -> Iterator[Tensor]:
    """Yield a tensor, and what each transform of `torch.func` around it wraps."""
    yield tensor
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
        yield tensor


def may_need_gradient(tensor: Tensor) -> bool:
    """Return True if a tensor needs a gradient, or one that a transform has wrapped in it."""
    if tensor.requires_grad:
        return True
    # A tensor that vmap maps does not say what the tensor inside of it says.
    if torch.compiler.is_compiling() or not is_watched():
        return False
    return any(inner.requires_grad for inner in unwrapped(tensor))


def any_tangent(tensors: Sequence[Tensor | None]) -> bool:
    """Return True if a tensor has a forward-mode derivative."""
    return forward_ad._current_level >= 0 and any(
        t is not None and _unpack_dual(t).tangent is not None for t in tensors
    )


def values_visible(tensor: Tensor) -> bool:
    """Return True if a check may look at values: on the CPU, or where `RNNC_CHECK` asks for it."""
    if torch.compiler.is_compiling():
        return False
    # First what takes the least time: lengths on a GPU are asked about in each call.
    if not tensor.is_cpu and os.environ.get("RNNC_CHECK", "") in ("", "0"):
        return False
    visible = tensor.is_cpu or tensor.is_cuda
    return visible and not is_watched() and all_plain((tensor,))


def guard_of(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """Return a comparison of tensors with these, besides their values.

    It says whether tensors have the types, dtypes, devices, sizes and strides of these, and no mode
    of torch is active that was not. It is one call of C, holds no tensor, and takes none twice.
    """
    if not tensors:
        return lambda *_: True
    guards = TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
    check: Callable[..., bool] = guards.check
    return check


_NOTHING = nullcontext()


def profiled(name: str) -> AbstractContextManager[Any]:
    """Return a span in torch's profiler, where one runs."""
    return torch.profiler.record_function(name) if profiler_enabled() else _NOTHING


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Return a context without autocast, for a backward: its forward decided what to compute in."""
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return _NOTHING


def alone(name: str, device: str) -> AbstractContextManager[Any]:
    """Return a span in torch's profiler, where one runs, without autocast."""
    if profiler_enabled() or torch.is_autocast_enabled(device):
        return _alone(name, device)
    return _NOTHING


@contextmanager
def _alone(name: str, device: str) -> Iterator[None]:
    with profiled(name), without_autocast(device):
        yield


def transform_of(tensors: Sequence[Tensor | None]) -> tuple[str, bool] | None:
    """Return what transforms a call, and whether it is refused whatever the backend."""
    if any_tangent(tensors):
        return _forward_mode()
    if not is_watched():
        return None
    if torch._C._get_tracing_state() is not None:
        return (_ONNX, False) if torch.onnx.is_in_onnx_export() else ("torch.jit.trace", True)
    return None if kernels_follow() else _transform_of_func()


def is_transformed(tensors: Sequence[Tensor | None]) -> bool:
    """Return True if a call is under any transform of torch, also one that kernels follow."""
    if torch.compiler.is_compiling():
        return bool(_compiled_is_transformed())
    return transform_of(tensors) is not None or _transform_of_func() is not None


@constant_in_graphs
def _compiled_is_transformed() -> bool:
    return compiled_transform() is not None


def compiled_transform() -> tuple[str, bool] | None:
    """Return `transform_of` where a compiler traces, which enters transforms itself."""
    if torch.onnx.is_in_onnx_export():
        return _ONNX, False
    return _transform_of_func() or _forward_mode()


def kernels_follow() -> bool:
    """Return True if all transforms around a call are `vmap`, and `grad` or `vjp` once."""
    kinds = _functorch.TransformType
    keys = [level.key() for level in _functorch.get_interpreter_stack() or ()]
    followed = all(key in (kinds.Grad, kinds.Vmap) for key in keys)
    return bool(keys) and followed and keys.count(kinds.Grad) <= 1


def _transform_of_func() -> tuple[str, bool] | None:
    top = _functorch.peek_interpreter_stack()
    if top is None or top.key() == _functorch.TransformType.Functionalize:
        return None
    return f"torch.func ({top.key().name})", False


def _forward_mode() -> tuple[str, bool] | None:
    if forward_ad._current_level < 0:
        return None
    return "forward-mode derivatives (torch.autograd.forward_ad)", False
