"""Launches of kernels that may begin while the one before them in the stream ends."""

from __future__ import annotations

import ctypes

from ..launch import Kernel
from .driver import configured
from .library import check, keeping

# cuda.h: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_PROGRAMMATIC_SERIALIZATION = 6
# Graphs keep such an order since 12.3: CUDA C++ Programming Guide, "Use in CUDA Graphs".
_FIRST_DRIVER = 12030


def overlap_possible() -> bool:
    """Return True if the driver knows such launches, in graphs too."""
    from cupy.cuda import runtime

    return bool(runtime.driverGetVersion() >= _FIRST_DRIVER)


def launch_overlapping(
    kernel: Kernel, grid: tuple[int, int, int], arguments: ctypes.Structure, stream: int
) -> None:
    """Launch a kernel that itself waits for the one before it in the stream.

    Its blocks may begin when those of the kernel before have all allowed it or ended; it must not
    touch what that one reads or writes before its `griddepcontrol.wait`. It is of the current
    device and was launched before.
    """
    given = grid, kernel.threads, kernel.shared, stream
    config = configured(*given, attribute=_PROGRAMMATIC_SERIALIZATION)
    values = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    launch = keeping.cuLaunchKernelEx
    check(launch(config.address, kernel.function, ctypes.addressof(values), None))
