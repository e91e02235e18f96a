"""Launches of kernels that may begin while the one before them in the stream ends."""

from __future__ import annotations

import ctypes
from functools import cache

from ...replay.recorder import refuse_recording
from ..launch import Kernel
from .driver import LaunchConfig, driver_library

# cuda.h: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_PROGRAMMATIC_SERIALIZATION = 6
# Graphs keep such an order since 12.3: CUDA C++ Programming Guide, "Use in CUDA Graphs".
_FIRST_DRIVER = 12030


class _Attribute(ctypes.Structure):
    """`CUlaunchAttribute`; its value is a union of 64 bytes, of which this kind takes an int."""

    _fields_ = [
        ("id", ctypes.c_uint),
        ("padding", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    ]


@cache
def overlap_possible() -> bool:
    """Whether the driver knows such launches, in graphs too."""
    from cupy.cuda import runtime

    return bool(runtime.driverGetVersion() >= _FIRST_DRIVER)


def launch_overlapping(
    kernel: Kernel, grid: tuple[int, int, int], arguments: ctypes.Structure, stream: int
) -> None:
    """Launch a kernel that itself waits for the one before it in the stream.

    Its blocks may begin when those of the kernel before have all allowed it or ended; it must not
    touch what that one reads or writes before its `griddepcontrol.wait`.

    Args:
        kernel: of the current device.
        grid: blocks in x, y and z.
        arguments: passed by value.
        stream: the handle of a stream.
    """
    from cupy_backends.cuda.api import driver

    refuse_recording()
    attribute = _Attribute(id=_PROGRAMMATIC_SERIALIZATION, value=1)
    config = LaunchConfig(
        *grid,
        *(kernel.threads, 1, 1),
        kernel.shared,
        stream,
        ctypes.addressof(attribute),
        1,
    )
    values = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    driver.check_status(
        driver_library().cuLaunchKernelEx(
            ctypes.byref(config), ctypes.c_void_p(kernel.function), values, None
        )
    )
