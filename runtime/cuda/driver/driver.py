"""The driver, for what CuPy does not pass on; and what its refusals of a kernel mean."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from ...errors import ResidencyError

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
    """Mirrors `CUlaunchConfig` of cuda.h."""

    _fields_ = [
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


@cache
def driver_library() -> ctypes.CDLL:
    """The loaded driver."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def as_residency(error: RuntimeError, where: str) -> RuntimeError:
    """An error of the driver as a `ResidencyError`, where it says that there is no room for a
    kernel's blocks; any other error as it is.

    Args:
        error: as CuPy raised it, with the driver's number.
        where: what was tried.
    """
    name = _NO_ROOM.get(getattr(error, "status", 0))
    if name is None:
        return error
    return ResidencyError(
        where,
        f"{name}: the driver has no room for the kernel's blocks",
        "room for all of them at once; MPS and green contexts give only a part of the device",
        'variant="alternating", whose blocks do not wait for each other',
    )
