"""Counts of the blocks that a device holds at once, as blocks that wait for each other must be."""

from __future__ import annotations

import ctypes

from .driver import LaunchConfig, driver_library


def resident_blocks(
    kernel: tuple[int, int, int], cluster: int, multiprocessors: int, stream: int | None = None
) -> int:
    """Return how many blocks of a kernel fit the current device at once, all of it being free.

    Args:
        kernel: the driver's handle, whose attributes are set, the threads of a block, and its bytes
            of dynamic shared memory.
        cluster: blocks per cluster, 1 for none.
        multiprocessors: of the device, or of a partition.
        stream: of the partition; None for the whole device.
    """
    if cluster == 1:
        return blocks_per_multiprocessor(*kernel) * multiprocessors
    return _resident_clusters(*kernel, cluster, stream) * cluster


def blocks_per_multiprocessor(function: int, threads: int, shared: int) -> int:
    """Return how many blocks of a kernel share a multiprocessor."""
    from cupy_backends.cuda.api import driver

    return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared))


def _resident_clusters(
    function: int, threads: int, shared: int, cluster: int, stream: int | None
) -> int:
    """Return how many clusters of a kernel, of several blocks each, fit at once.

    A cluster stays within a group of multiprocessors, and those groups differ in size: fewer
    clusters fit than blocks would.
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
