"""Functions of the driver, which keep the interpreter's lock or let it go.

A function of `ctypes.CDLL` lets the interpreter's lock go, as CuPy's do, and then queues for it
again: up to 5 ms per thread that computes. One of `ctypes.PyDLL` keeps it, and all threads of
Python wait for it.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any

NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the default stream
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


class _Functions:
    """Functions of `_TYPES` as attributes, each found at its first use."""

    def __init__(self, kind: type[ctypes.CDLL]) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        function = _function(self._kind, name)
        setattr(self, name, function)
        return function


# Those of the first keep the lock, and must not wait.
keeping, letting_go = _Functions(ctypes.PyDLL), _Functions(ctypes.CDLL)


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


def driver_library() -> ctypes.CDLL:
    """Return the loaded driver."""
    return ctypes.CDLL(driver_path())


def stream_priorities() -> tuple[ctypes.c_int, ctypes.c_int]:
    """Return the lowest and the highest priority of the current device's streams."""
    least, greatest = ctypes.c_int(), ctypes.c_int()
    ask = driver_library().cuCtxGetStreamPriorityRange
    check(ask(ctypes.byref(least), ctypes.byref(greatest)))
    return least, greatest
