"""The library cuBLASLt: its functions with their types, and its handle."""

from __future__ import annotations

import ctypes
from functools import cache

from .cublas import check_status, cuda_library


class Lt:
    """cuBLASLt on a device: its functions, a handle, and a launch that keeps the lock."""

    def __init__(self) -> None:
        self.library, self.handle = _typed(cuda_library("cublasLt")), ctypes.c_void_p()
        self.keeping = cuda_library("cublasLt", ctypes.PyDLL).cublasLtMatmul
        self.keeping.argtypes = self.library.cublasLtMatmul.argtypes
        check_status("cublasLtCreate", self.library.cublasLtCreate(ctypes.byref(self.handle)))


@cache
def lt_of(device: int) -> Lt:
    """Return the library on the current device, given by its number; made once."""
    return Lt()


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions' arguments."""
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
