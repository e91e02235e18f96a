"""How many blocks of a kernel a device holds at once: blocks that wait for each other must be."""

from __future__ import annotations

import ctypes

from .device import device_limits
from .driver import LaunchConfig, driver_library


def resident_blocks(function: int, threads: int, shared: int, cluster: int, device: int) -> int:
    """How many blocks of a kernel fit a device at once, all of it being free.

    Args:
        function: the driver's handle; its attributes are set.
        threads: of a block.
        shared: bytes of dynamic shared memory of a block.
        cluster: blocks of a cluster, which the kernel was compiled with; 1 for none.
        device: the device's number; it must be the current device.
    """
    if cluster == 1:
        each = blocks_per_multiprocessor(function, threads, shared)
        return each * device_limits(device).multiprocessors
    return resident_clusters(function, threads, shared, cluster) * cluster


def blocks_per_multiprocessor(function: int, threads: int, shared: int) -> int:
    """Return how many blocks of a kernel share a multiprocessor.

    Args:
        function: as in `resident_blocks`.
        threads: likewise.
        shared: likewise.
    """
    from cupy_backends.cuda.api import driver

    return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared))


def resident_clusters(
    function: int, threads: int, shared: int, cluster: int, stream: int | None = None
) -> int:
    """Return how many clusters of a kernel fit at once.

    A cluster stays within a group of multiprocessors, and those groups differ in size: fewer
    clusters fit than blocks would.

    Args:
        function: as in `resident_blocks`.
        threads: likewise.
        shared: likewise.
        cluster: likewise; more than 1.
        stream: the handle of a stream of a partition; None for the whole device.
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
