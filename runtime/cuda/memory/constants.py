"""Constant tensors that calls share: initial states, which nobody writes."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from ..launch import on_device
from .allocations import device_tensor
from .kept import freed_with_memory


@lru_cache(maxsize=64)
def constant(
    dtype: torch.dtype, device: torch.device, shape: tuple[int, ...], value: float, stream: int
) -> Tensor:
    """A tensor of one value, made once, since filling it takes as long as a launch.

    Args:
        dtype: of the tensor.
        device: of the tensor.
        shape: of the tensor.
        value: of each element.
        stream: the handle of the stream that fills and reads it.
    """
    with torch.inference_mode(False), on_device(device):
        return device_tensor(shape, dtype, device, stream).fill_(value)


freed_with_memory(constant.cache_clear)
