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
    from cupy_backends.cuda.api import driver

    if cluster == 1:
        each = driver.occupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared)
        return int(each) * device_limits(device).multiprocessors
    # A cluster stays within a group of multiprocessors, and those groups differ in size: fewer
    # clusters fit than blocks would.
    config = LaunchConfig(cluster, 1, 1, threads, 1, 1, shared)
    found = ctypes.c_int()
    driver.check_status(
        driver_library().cuOccupancyMaxActiveClusters(
            ctypes.byref(found), ctypes.c_void_p(function), ctypes.byref(config)
        )
    )
    return found.value * cluster
