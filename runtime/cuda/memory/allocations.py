"""Memory of a device that torch's allocator does not know, for what is kept between calls.

torch routes a thread's allocations into private pools, for example while `torch.compile` warms a
graph up, and wants them all back. It also remembers the modes that a tensor was made in.
"""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor

from ....errors import DiagnosticError
from ..driver.capture import beside_captures

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


def _allocated(size: int, stream: int) -> _Memory:
    from cupy.cuda import runtime

    try:
        return _Memory(size, stream)
    except runtime.CUDARuntimeError as error:
        if error.status != _OUT_OF_MEMORY:
            raise
    torch.cuda.empty_cache()
    try:
        return _Memory(size, stream)
    except runtime.CUDARuntimeError as error:
        if error.status != _OUT_OF_MEMORY:
            raise
        free = torch.cuda.mem_get_info()[0]
        lack = DiagnosticError(
            "buffers of an alternating plan",
            f"{free} bytes free on the device",
            f"{size} bytes",
            "rnnc.free_memory(), which frees buffers of earlier calls, or a smaller batch",
        )
        raise torch.OutOfMemoryError(str(lack)) from error
