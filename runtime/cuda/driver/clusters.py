"""Launches of kernels whose clusters are set at the launch."""

from __future__ import annotations

import ctypes

from ..launch import Kernel
from .driver import LaunchConfig, driver_library

_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class _Attribute(ctypes.Structure):
    """`CUlaunchAttribute`; its value is a union of 64 bytes, of which this kind takes three."""

    _fields_ = [
        ("id", ctypes.c_uint),
        ("padding", ctypes.c_char * 4),
        ("size", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    ]


def launch_clusters(
    kernel: Kernel,
    grid: tuple[int, int, int],
    cluster: int,
    arguments: ctypes.Structure,
    stream: int,
) -> None:
    """Launch a kernel in clusters.

    Args:
        kernel: of the current device.
        grid: blocks in x, y and z.
        cluster: blocks per cluster, along x.
        arguments: passed by value.
        stream: the handle of a stream.
    """
    from cupy_backends.cuda.api import driver

    attribute = _Attribute(id=_CLUSTER_DIMENSION)
    attribute.size[:] = cluster, 1, 1
    config = LaunchConfig(
        *grid, kernel.threads, 1, 1, kernel.shared, stream, ctypes.addressof(attribute), 1
    )
    values = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    driver.check_status(
        driver_library().cuLaunchKernelEx(
            ctypes.byref(config), ctypes.c_void_p(kernel.function), values, None
        )
    )
