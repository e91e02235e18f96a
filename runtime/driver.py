"""The driver, for what CuPy does not pass on: launches and questions with attributes."""

from __future__ import annotations

import ctypes
import sys
from functools import cache


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
