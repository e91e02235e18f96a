"""The stream on which torch launches, and whether it captures."""

from __future__ import annotations

import torch

from .described import is_described


def current_stream(device: int) -> int:
    """Return the handle of torch's current stream of a device; 0 where there is no device."""
    return 0 if is_described(device) else torch._C._cuda_getCurrentRawStream(device)


def is_capturing(device: int) -> bool:
    """Return True if torch's current stream of the current device captures a graph."""
    return not is_described(device) and torch.cuda.is_current_stream_capturing()
