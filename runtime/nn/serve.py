"""Choice between kernels and torch's own forward for a call of a module of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..call.marks import constant_in_graphs
from ..call.plain import all_plain, is_transformed, is_watched
from ..process.caller import warn_once
from ..targets.registry import TARGETS, compiler_error, target_name, without_kernels

# What autocast casts to the dtype of a call.
_CAST = frozenset((torch.float32, torch.bfloat16, torch.float16))


def kernels_serve(tensors: Sequence[Tensor]) -> bool:
    """Return True if kernels, or their operators, can run a call; its input is the first tensor."""
    x = tensors[0]
    name = _target(x.device.type, x.device.index)
    if name is None or not _computes(name, x.dtype):
        return False
    if any(tensor.device != x.device for tensor in tensors):
        return False
    dtypes = {tensor.dtype for tensor in tensors}
    if torch.is_autocast_enabled(x.device.type):
        computed, _ = TARGETS[name].dtypes_of(x.dtype)
        if computed != torch.get_autocast_dtype(x.device.type) or not dtypes <= _CAST:
            return False
    elif len(dtypes) > 1:
        return False
    if is_transformed(tensors):
        return False
    return torch.compiler.is_compiling() or is_watched() or all_plain(tensors)


def why_no_kernels(device: torch.device, dtype: torch.dtype) -> str | None:
    """Return the reason why no kernel serves modules of a device and dtype; None if kernels do."""
    name = target_name(device.type)
    if name is None:
        return f"on {device.type}, which has no kernels"
    error = compiler_error(name, device.index)
    if error is not None:
        return f"no kernels for {name}: {error.found}"
    return None if _computes(name, dtype) else f"{dtype} on {name}, which has no kernels for it"


def _computes(name: str, dtype: torch.dtype) -> bool:
    """Return True if kernels compute in a dtype of a call."""
    computed, returned = TARGETS[name].dtypes_of(dtype)
    return returned == computed and computed in TARGETS[name].dtypes


@constant_in_graphs
def _target(device: str, index: int | None) -> str | None:
    """Return the name of the target with kernels for a device; None if there is none."""
    name = target_name(device)
    error = None if name is None else compiler_error(name, index)
    if name is None or error is None:
        return name
    warn_once(f"rnnc.nn runs torch's own forward, since there {without_kernels(name, error)}")
    return None


def is_strided(x: Any) -> bool:
    """Return True if a value is a tensor of the usual layout."""
    return isinstance(x, Tensor) and not x.is_nested and x.layout == torch.strided
