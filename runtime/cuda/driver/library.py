"""Functions of the driver, by whether they keep the interpreter's lock.

A function of `ctypes.CDLL` lets the lock go, as CuPy's do, and then queues for it again: up to 5 ms
per thread that computes. One of `ctypes.PyDLL` keeps it, and all threads of Python wait for it.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any

# What functions take that a call may enter.
_TYPES: dict[str, tuple[Any, ...]] = {
    "cuEventCreate": (c_void_p, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventQuery": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuStreamBatchMemOp_v2": (c_void_p, c_uint, c_void_p, c_uint),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuThreadExchangeStreamCaptureMode": (c_void_p,),
}


@cache
def keeping(name: str) -> Any:
    """Return a function of `_TYPES` that keeps the lock: it must not wait."""
    return _function(ctypes.PyDLL, name)


@cache
def letting_go(name: str) -> Any:
    """Return a function of `_TYPES` that lets the lock go: it may wait."""
    return _function(ctypes.CDLL, name)


def check(status: int) -> None:
    """Raise the driver's error, if the status that a function returned is one."""
    if status:
        from cupy_backends.cuda.api import driver

        driver.check_status(status)


def driver_path() -> str:
    """Return the name by which the system's loader finds the driver."""
    return "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def _function(kind: type[ctypes.CDLL], name: str) -> Any:
    """Return a function of the driver, with its types."""
    function = getattr(kind(driver_path()), name)
    function.argtypes = _TYPES[name]
    return function
