"""Partitions of a GPU: streams whose kernels run on some of its multiprocessors alone.

A partition is a green context of the driver, which CUDA 12.4 brought. Kernels that are loaded in
the device's own context run on its streams, and events order them with all other streams.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from ....codegen.cuda.mma import WARP
from ....errors import NoCudaError
from .blocks import resident_blocks
from .capture import beside_captures
from .device import described_limits, is_described
from .driver import NON_BLOCKING, check, driver_library, stream_priorities

_MULTIPROCESSORS = 1  # CU_DEV_RESOURCE_TYPE_SM
_LARGE_CLUSTERS = 2  # CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE
_DEFAULT_STREAM = 1  # CU_GREEN_CTX_DEFAULT_STREAM


class _Resource(ctypes.Structure):
    """`CUdevResource` of cuda.h; of the multiprocessors, its union begins with their number."""

    _fields_ = [
        ("kind", ctypes.c_uint),
        ("padding", ctypes.c_ubyte * 92),
        ("count", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * 60),
    ]


class Partition:
    """Some multiprocessors of a device, `size` of them, for the life of the process."""

    def __init__(self, context: ctypes.c_void_p, size: int) -> None:
        self._context, self.size = context, size
        self._stream = self.new_stream()  # by which the driver knows the partition

    def new_stream(self) -> int:
        """Make a stream of the lowest priority, for good; return its handle."""
        stream, (least, _) = ctypes.c_void_p(), stream_priorities()
        create = driver_library().cuGreenCtxStreamCreate
        check(create(ctypes.byref(stream), self._context, ctypes.c_uint(NON_BLOCKING), least))
        return int(stream.value or 0)

    def resident_blocks(self, kernel: tuple[int, int, int], cluster: int) -> int:
        """Return how many blocks of a kernel it holds at once, as in `residency`."""
        return resident_blocks(kernel, cluster, self.size, self._stream)


class DescribedPartition(Partition):
    """Part of a GPU that is not there."""

    def __init__(self, device: int, size: int) -> None:
        self._device, self.size = device, size

    def resident_blocks(self, kernel: tuple[int, int, int], cluster: int) -> int:
        """Return how many blocks its threads and its shared memory hold at once."""
        limits, (_, threads, shared) = described_limits(self._device), kernel
        return limits.blocks_per_multiprocessor(threads // WARP, 1, shared) * self.size


@lru_cache(maxsize=64)
def partition_of(device: int, size: int, large_clusters: bool) -> Partition:
    """Return a partition of at least `size` multiprocessors of the current device; made once."""
    if is_described(device):
        return DescribedPartition(device, size)
    try:
        with beside_captures():
            return _divide(device, size, _LARGE_CLUSTERS if large_clusters else 0)
    except (AttributeError, RuntimeError) as error:
        raise NoCudaError(
            f"a partition of {size} multiprocessors of cuda:{device}",
            f"{type(error).__name__}: {error}",
            "a driver with green contexts, of CUDA 12.4 or later",
            'layers="auto"',
        ) from error


def _divide(index: int, size: int, flags: int) -> Partition:
    """Split multiprocessors off a device, and make the context of that part."""
    library, reference = driver_library(), ctypes.byref
    device, context, description = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    whole, part, rest, count = _Resource(), _Resource(), _Resource(), ctypes.c_uint(1)
    check(library.cuDeviceGet(reference(device), index))
    check(library.cuDeviceGetDevResource(device, reference(whole), _MULTIPROCESSORS))
    split: Any = library.cuDevSmResourceSplitByCount
    found = reference(part), reference(count), reference(whole), reference(rest)
    check(split(*found, ctypes.c_uint(flags), ctypes.c_uint(size)))
    check(library.cuDevResourceGenerateDesc(reference(description), reference(part), 1))
    create = library.cuGreenCtxCreate
    check(create(reference(context), description, device, ctypes.c_uint(_DEFAULT_STREAM)))
    return Partition(context, int(part.count))
