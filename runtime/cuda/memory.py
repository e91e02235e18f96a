"""Memory of a device that calls leave for later calls, bounded by bytes, and what they share.

It is not torch's, which routes a thread's allocations into private pools, for example while
`torch.compile` warms a graph up, and wants them all back. torch also remembers the modes that a
tensor was made in.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import DiagnosticError
from .driver.capture import beside_captures
from .driver.cublas import workspace_bytes
from .driver.device import is_described
from .driver.streams import on_device

_GRANULE = 512  # bytes, as the driver deals memory
_OUT_OF_MEMORY, _NOT_SUPPORTED = 2, 801  # cudaErrorMemoryAllocation, cudaErrorNotSupported


class _Memory:
    """Bytes of the current device, freed with the last tensor over them, in the order of a stream.

    Neither call waits for the device: one that does meets the captures of other threads.
    """

    _stream: int | None

    def __init__(self, size: int, stream: int) -> None:
        from cupy.cuda import runtime

        self._runtime, self._stream = runtime, stream
        with beside_captures():
            try:
                self._address = runtime.mallocAsync(size, stream)
            except runtime.CUDARuntimeError as error:
                if error.status != _NOT_SUPPORTED:
                    raise
                self._address, self._stream = runtime.malloc(size), None
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (self._address, False),
            "version": 3,
        }

    def __del__(self) -> None:
        # A process that ends has no driver left.
        with suppress(Exception), beside_captures():
            # In a stream that captures it would be a node of the caller's graph. What ran there
            # before is over: whoever captures waits first.
            if self._stream is None or self._runtime.streamIsCapturing(self._stream):
                self._runtime.free(self._address)
            else:
                self._runtime.freeAsync(self._address, self._stream)


def rounded(size: int) -> int:
    """Return the bytes that an allocation of a size takes."""
    return -(-size // _GRANULE) * _GRANULE


def device_tensor(
    size: tuple[int, ...], dtype: torch.dtype, device: torch.device, stream: int
) -> Tensor:
    """Return an uninitialised tensor of one stream, whatever torch's modes are now."""
    count = dtype.itemsize
    for length in size:
        count *= length
    with torch.inference_mode(False):
        if not count:
            return torch.empty(size, dtype=dtype, device=device)
        memory = _allocated(count, stream)
        return torch.as_tensor(memory, device=device).view(dtype).view(size)


def _allocated(size: int, stream: int, first: bool = True) -> _Memory:
    from cupy.cuda import runtime

    try:
        return _Memory(size, stream)
    except runtime.CUDARuntimeError as error:
        if error.status != _OUT_OF_MEMORY:
            raise
        if first:
            torch.cuda.empty_cache()
            return _allocated(size, stream, first=False)
        free = torch.cuda.mem_get_info()[0]
        lack = DiagnosticError(
            "buffers of an alternating plan",
            f"{free} bytes free on the device",
            f"{size} bytes",
            "rnnc.free_memory(), which frees buffers of earlier calls, or a smaller batch",
        )
        raise torch.OutOfMemoryError(str(lack)) from error


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
    """Return a tensor of one value, made once by the stream: filling it takes a launch's time."""
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
