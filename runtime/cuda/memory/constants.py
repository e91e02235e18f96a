"""Tensors that calls share: initial states, which nobody writes, and the workspace of cuBLAS."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..driver.cublas import workspace_bytes
from ..driver.device import is_described
from ..driver.streams import on_device
from .allocations import device_tensor
from .kept import freed_with_memory


@lru_cache(maxsize=64)
def constant(
    dtype: torch.dtype, device: torch.device, shape: tuple[int, ...], value: float, stream: int
) -> Tensor:
    """Return a tensor of one value, made once, since filling it takes as long as a launch.

    The stream fills and reads it.
    """
    if is_described(device.index):
        with _disable_current_modes():
            return torch.empty(shape, dtype=dtype, device="meta")
    with torch.inference_mode(False), on_device(device):
        return device_tensor(shape, dtype, device, stream).fill_(value)


freed_with_memory(constant.cache_clear)


@lru_cache(maxsize=8)
def lasting_workspace(device: int, stream: int) -> Tensor:
    """Return the memory that all products of a stream use in turn, where it captures nothing."""
    size = (workspace_bytes(device),)
    return device_tensor(size, torch.uint8, torch.device("cuda", device), stream)


freed_with_memory(lasting_workspace.cache_clear)
