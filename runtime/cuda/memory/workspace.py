"""Memory that products of a library use beside their operands."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from ..driver.cublas import workspace_bytes
from .allocations import device_tensor
from .kept import freed_with_memory


@lru_cache(maxsize=8)
def lasting_workspace(device: int, stream: int) -> Tensor:
    """Return the memory that all products of a stream use in turn, where it captures nothing."""
    size = (workspace_bytes(device),)
    return device_tensor(size, torch.uint8, torch.device("cuda", device), stream)


freed_with_memory(lasting_workspace.cache_clear)
