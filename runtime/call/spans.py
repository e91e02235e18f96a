"""Contexts in which kernels run: a span of torch's profiler, and no autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from .plain import profiler_enabled

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
