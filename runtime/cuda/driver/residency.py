"""Counts of the blocks that a device holds at once, as blocks that wait for each other must be."""

from __future__ import annotations

import ctypes

from .device import device_limits
from .driver import LaunchConfig, driver_library


def resident_blocks(function: int, threads: int, shared: int, cluster: int, device: int) -> int:
    """Return how many blocks of a kernel fit the current device at once, all of it being free.

    The function is the driver's handle, whose attributes are set. It was compiled with `cluster`
    blocks per cluster, 1 for none. A block has `shared` bytes of dynamic shared memory.
    """
    if cluster == 1:
        each = blocks_per_multiprocessor(function, threads, shared)
        return each * device_limits(device).multiprocessors
    return resident_clusters(function, threads, shared, cluster) * cluster


def blocks_per_multiprocessor(function: int, threads: int, shared: int) -> int:
    """Return how many blocks of a kernel share a multiprocessor."""
    from cupy_backends.cuda.api import driver

    return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared))


def resident_clusters(
    function: int, threads: int, shared: int, cluster: int, stream: int | None = None
) -> int:
    """Return how many clusters of a kernel, of several blocks each, fit at once.

    A cluster stays within a group of multiprocessors, and those groups differ in size: fewer
    clusters fit than blocks would. The stream is one of a partition; None for the whole device.
    """
    from cupy_backends.cuda.api import driver

    config = LaunchConfig(cluster, 1, 1, threads, 1, 1, shared, stream)
    found = ctypes.c_int()
    driver.check_status(
        driver_library().cuOccupancyMaxActiveClusters(
            ctypes.byref(found), ctypes.c_void_p(function), ctypes.byref(config)
        )
    )
    return found.value
