"""Which tensors a kernel can read by their address, and whether a mode or tracer is active.

A kernel reads a tensor's memory directly. That is wrong for a tensor whose values differ from its
memory: a view with the negative bit, a tensor of zeros without memory, a wrapper of a subclass or
of `torch.func`. And a mode or a tracer sees a call only if torch's dispatcher does. Such calls take
the operators, which the dispatcher, modes and subclasses can handle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, overrides
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext

_included = torch._C._dispatch_tls_local_include_set
profiler_enabled = torch._C._autograd._profiler_enabled
_function_modes = torch._C._len_torch_function_stack
_mode_stack: Callable[[], list[Any]] = overrides._get_current_function_mode_stack
_unpack_dual: Callable[[Tensor], Any] = forward_ad.unpack_dual
_CLASSES = frozenset((Tensor, torch.nn.Parameter))


def _bits(*names: str) -> int:
    """Dispatch keys as torch packs them into an integer."""
    bits = 0
    for name in names:
        bits |= torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)).raw_repr()
    return bits


# What a thread adds to the keys of every call while no mode, tracer or transform is active.
_UNWATCHED = ~_bits("BackendSelect", "ADInplaceOrView")


def all_plain(tensors: Iterable[Tensor | None]) -> bool:
    """Whether a kernel can read all tensors, of real numbers, by their address.

    They are no wrappers, have memory, and no negative bit.
    """
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.__class__ not in _CLASSES or tensor.is_neg():
            return False
        try:
            if not tensor.data_ptr() and tensor.numel():
                return False  # zeros without memory, or memory that was given back
        except RuntimeError:  # sparse, or wrapped by a transform
            return False
    return True


def is_watched() -> bool:
    """Whether a mode, a tracer or a transform of torch is active, which has to see the call.

    `with torch.device(...)` is a mode too; it only concerns tensors that are made.
    """
    return bool(_included().raw_repr() & _UNWATCHED) or (
        bool(_function_modes()) and any(not isinstance(m, DeviceContext) for m in _mode_stack())
    )


def treats_itself(tensor: Tensor) -> bool:
    """Whether a tensor is of a type that says what operators do with it (`__torch_dispatch__`)."""
    return type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__


def is_wrapped(tensor: Tensor | None) -> bool:
    """Whether a tensor is one that a transform of torch wrapped, `vmap` for example."""
    functorch = torch._C._functorch
    return tensor is not None and (
        functorch.is_functorch_wrapped_tensor(tensor) or functorch.is_legacy_batchedtensor(tensor)
    )


def any_tangent(tensors: Sequence[Tensor | None]) -> bool:
    """Whether a tensor carries a derivative of forward mode."""
    return forward_ad._current_level >= 0 and any(
        t is not None and _unpack_dual(t).tangent is not None for t in tensors
    )
