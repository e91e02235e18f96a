"""Memory that products of a library use beside their operands."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from ..driver.cublas import workspace_bytes
from .allocations import device_tensor
from .kept import freed_with_memory


def workspace_of(device: int, stream: int) -> Tensor:
    """Return the memory of products on torch's current stream of a device, given by its handle."""
    if torch.cuda.is_current_stream_capturing():
        # A graph keeps no memory but that of its own pool. Freed early, it goes to whoever runs
        # later in the same stream.
        like = torch.device("cuda", device)
        return torch.empty(workspace_bytes(device), dtype=torch.uint8, device=like)
    return lasting_workspace(device, stream)


@lru_cache(maxsize=8)
def lasting_workspace(device: int, stream: int) -> Tensor:
    """Return the memory that all products of a stream use in turn, where it captures nothing."""
    size = (workspace_bytes(device),)
    return device_tensor(size, torch.uint8, torch.device("cuda", device), stream)


freed_with_memory(lasting_workspace.cache_clear)
