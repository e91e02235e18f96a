"""Memory that calls leave on a device for later calls, bounded by bytes, and what they share."""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..driver.cublas import workspace_bytes
from ..driver.device import is_described
from ..driver.streams import on_device
from .allocations import device_tensor

_MIB = 2**20
_LIMIT = 1024  # MiB, without RNNC_KEPT_SIZE
# A forward and its backward: without them each step of a training would make its own anew.
_ALWAYS = 2


class Entry(Protocol):
    """Value that can be kept: it frees its memory when the last reference to it goes."""

    nbytes: int


E = TypeVar("E", bound=Entry)
F = TypeVar("F", bound=Callable[[], None])


class Kept(Generic[E]):
    """Entries by key; those used longest ago go where all together are beyond the limit."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, E] = OrderedDict()
        # Garbage collection inside may run a caller's code, which may come back.
        self._lock = threading.RLock()
        _EMPTIED.append(self.clear)

    def get(self, key: Hashable, make: Callable[[], E]) -> E:
        """Return the entry of a key, made on first use; of two made at once, the first."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry
        made = make()
        gone: list[E] = []  # freed at the end, without the lock: that waits for the device
        with self._lock:
            entry = self._entries.setdefault(key, made)
            while len(self._entries) > _ALWAYS and self.nbytes > kept_limit():
                gone.append(self._entries.popitem(last=False)[1])
        return entry

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        with self._lock:
            return sum(entry.nbytes for entry in self._entries.values())

    def clear(self) -> None:
        """Let all entries go."""
        with self._lock:
            gone, self._entries = self._entries, OrderedDict()
        gone.clear()


def kept_limit() -> int:
    """Return the bytes that may be kept: `RNNC_KEPT_SIZE` in MiB; nonsense counts as unset."""
    wish = os.environ.get("RNNC_KEPT_SIZE", "")
    return (int(wish) if wish.isdecimal() else _LIMIT) * _MIB


_EMPTIED: list[Callable[[], None]] = []


def freed_with_memory(clear: F) -> F:
    """Have `free_memory` call a function that empties a store."""
    _EMPTIED.append(clear)
    return clear


def free_memory() -> None:
    """Give back the GPU memory that calls keep for later calls.

    An alternating plan keeps its CUDA graphs, the weights in the order that it reads and a few
    states: some 75 MiB for each direction of an LSTM 1 x 3072, by size, dtype and stream. All of
    them together stay below `RNNC_KEPT_SIZE` MiB of each process; the two used last are always
    kept. The other plans keep nothing but constant initial states.

    Results are not touched, and loaded kernels stay. The call waits for what still runs. The next
    call of a size makes its graphs again, which takes some milliseconds. Any thread may call it at
    any time.

    Example:
        >>> import rnnc
        >>> rnnc.free_memory()
    """
    for clear in _EMPTIED:
        clear()


# Before the driver goes, while modules still have their names.
atexit.register(free_memory)


@lru_cache(maxsize=64)
def constant(
    dtype: torch.dtype, device: torch.device, stream: int, shape: tuple[int, ...], value: float
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
