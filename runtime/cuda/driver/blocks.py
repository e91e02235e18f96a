"""Blocks of launches: how the driver is told of them, and what room it has for them."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

from ....errors import ResidencyError
from .driver import check, driver_library

# Of cuda.h: what the driver says where a device, or the part of it that a client of MPS or a green
# context may use, cannot take a kernel's blocks or clusters.
_NO_ROOM = {
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    720: "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    912: "CUDA_ERROR_INVALID_CLUSTER_SIZE",
    914: "CUDA_ERROR_INVALID_RESOURCE_TYPE",
    915: "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
}


class LaunchConfig(ctypes.Structure):
    """Mirror of `CUlaunchConfig` of cuda.h."""

    _fields_ = [
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


class _Attribute(ctypes.Structure):
    """`CUlaunchAttribute`; its value is a union of 64 bytes, of which these kinds take an int."""

    _fields_ = [
        ("id", ctypes.c_uint),
        ("padding", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    ]


class Configured(NamedTuple):
    """Launch without its kernel and its argument; the driver reads `kept` at the address."""

    stream: int
    address: int
    kept: Any


@lru_cache(maxsize=4096)
def configured(
    grid: tuple[int, int, int], threads: int, shared: int, stream: int, attribute: int | None = None
) -> Configured:
    """Return a launch as the driver reads it, with an attribute switched on; made once."""
    given = None if attribute is None else _Attribute(id=attribute, value=1)
    place = None if given is None else ctypes.addressof(given)
    config = LaunchConfig(*grid, threads, 1, 1, shared, stream, place, given is not None)
    return Configured(stream, ctypes.addressof(config), (config, given))


def check_launch(status: int, where: str) -> None:
    """Raise the error of a launch, if there is one, as `as_residency` gives it."""
    try:
        check(status)
    except RuntimeError as error:
        raise as_residency(error, where) from None


def as_residency(error: RuntimeError, where: str) -> RuntimeError:
    """Return an error of CuPy, as a `ResidencyError` if blocks lacked room for what was tried."""
    name = _NO_ROOM.get(getattr(error, "status", 0))
    if name is None:
        return error
    return ResidencyError(
        where,
        f"{name}: the driver has no room for the kernel's blocks",
        "room for all of them at once; MPS and green contexts give only a part of the device",
        'variant="alternating", whose blocks do not wait for each other',
    )


def resident_blocks(
    kernel: tuple[int, int, int], cluster: int, multiprocessors: int, stream: int | None = None
) -> int:
    """Return how many blocks of a kernel fit the current device at once, all of it being free.

    `kernel` is the driver's handle, whose attributes are set, with the threads and the bytes of
    dynamic shared memory of a block. A cluster of 1 is none. The stream is that of a partition with
    so many multiprocessors; None for the whole device.
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
