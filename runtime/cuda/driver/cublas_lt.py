"""The library cuBLASLt: its functions with their types, and its handle."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from .cublas import check_status, cuda_library


@cache
def handle_of(device: int) -> ctypes.c_void_p:
    """Return the library's handle on the current device, for all threads."""
    handle = ctypes.c_void_p()
    check_status("cublasLtCreate", cublas_lt().cublasLtCreate(ctypes.byref(handle)))
    return handle


@cache
def keeping_product() -> Any:
    """Return the function that launches products and keeps the interpreter's lock."""
    launch = cuda_library("cublasLt", ctypes.PyDLL).cublasLtMatmul
    launch.argtypes = cublas_lt().cublasLtMatmul.argtypes
    return launch


@cache
def cublas_lt() -> ctypes.CDLL:
    """Return the library, its functions with their types."""
    library = cuda_library("cublasLt")
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    put = (pointer, number, pointer, size)
    library.cublasLtCreate.argtypes = (pointer,)
    library.cublasLtMatmulDescCreate.argtypes = (pointer, number, number)
    library.cublasLtMatmulDescSetAttribute.argtypes = put
    library.cublasLtMatrixLayoutCreate.argtypes = (
        *(pointer, number, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
    )
    library.cublasLtMatrixLayoutSetAttribute.argtypes = put
    library.cublasLtMatmulPreferenceCreate.argtypes = (pointer,)
    library.cublasLtMatmulPreferenceSetAttribute.argtypes = put
    library.cublasLtMatmulPreferenceDestroy.argtypes = (pointer,)
    library.cublasLtMatmulAlgoGetHeuristic.argtypes = (
        *(pointer,) * 7,
        *(number, pointer, pointer),
    )
    library.cublasLtMatmulAlgoConfigGetAttribute.argtypes = (*put, pointer)
    library.cublasLtMatmulAlgoConfigSetAttribute.argtypes = put
    library.cublasLtMatmulAlgoCheck.argtypes = (pointer,) * 8
    library.cublasLtMatmul.argtypes = (*(pointer,) * 14, size, pointer)
    return library
