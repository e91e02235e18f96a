"""The libraries cuBLAS and cuBLASLt, with handles and workspaces that are not torch's."""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import cache

import torch

from ....errors import NoCudaError
from .capture import beside_captures

# cudaDataType and cublasComputeType_t of library_types.h and cublas_api.h: factors, sums, compute.
_FLOAT, _DOUBLE = 0, 1
KINDS = {
    torch.float32: (_FLOAT, _FLOAT, 68),  # CUBLAS_COMPUTE_32F
    torch.float64: (_DOUBLE, _DOUBLE, 70),  # CUBLAS_COMPUTE_64F
    torch.float16: (2, _FLOAT, 68),
    torch.bfloat16: (14, _FLOAT, 68),
}
FAST_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
# As torch gives it: with less, cuBLAS takes other algorithms.
_WORKSPACE, _WORKSPACE_BEFORE_9 = 32 << 20, 8 << 20


def workspace_bytes(device: int) -> int:
    """Return the bytes of memory that products on a device use beside their operands."""
    hopper = torch.cuda.get_device_capability(device)[0] >= 9
    return _WORKSPACE if hopper else _WORKSPACE_BEFORE_9


class Blas:
    """Handle of cuBLAS on a device, for one thread at a time."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.handle = library, ctypes.c_void_p()
        self.lock = threading.Lock()
        self._at: tuple[int, int, int] | None = None
        # It allocates, which a capture of torch's would forbid.
        with beside_captures():
            check_status("cublasCreate", library.cublasCreate_v2(ctypes.byref(self.handle)))

    def at(self, stream: int, workspace: int, size: int) -> None:
        """Set the stream of products, with their workspace, while the caller has the lock."""
        wanted = stream, workspace, size
        if wanted == self._at:
            return
        self._at = None
        library, handle = self.library, self.handle
        # In this order: a new stream makes cuBLAS forget the workspace.
        check_status("cublasSetStream", library.cublasSetStream_v2(handle, stream))
        status = library.cublasSetWorkspace_v2(handle, workspace, size)
        check_status("cublasSetWorkspace", status)
        self._at = wanted


_making = threading.Lock()
_made: dict[int, Blas] = {}


def blas_of(device: int) -> Blas:
    """Return the handle of the current device, whose number is given; made once."""
    with _making:
        if device not in _made:
            _made[device] = Blas(_typed(cuda_library("cublas")))
        return _made[device]


def cuda_library(stem: str, kind: type[ctypes.CDLL] = ctypes.CDLL) -> ctypes.CDLL:
    """Return a library of CUDA, such as `cublas`: torch's, or a wheel's; else a `NoCudaError`."""
    major = (torch.version.cuda or "13").split(".")[0]
    name = f"{stem}64_{major}.dll" if sys.platform == "win32" else f"lib{stem}.so.{major}"
    try:
        return kind(name)
    except OSError:
        pass
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return kind(load_nvidia_dynamic_lib(stem).abs_path)
    except Exception as error:
        # Whatever the search raises, the remedy is the same.
        wheel = "nvidia-cublas" if int(major) >= 13 else f"nvidia-cublas-cu{major}"
        raise NoCudaError(
            "cuBLAS, which multiplies matrices",
            f"{type(error).__name__}: {error}",
            f"{name}, which torch for CUDA {major} installs",
            f"pip install {wheel}",
        ) from error


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions' arguments, so that a call needs no object of ctypes for each."""
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    matrix = (pointer, number, number)
    strided = (*matrix, ctypes.c_longlong)
    head, tail = (pointer, *(number,) * 5, pointer), (number, number)
    library.cublasSetStream_v2.argtypes = (pointer, pointer)
    library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, size)
    library.cublasGemmEx.argtypes = (*head, *matrix, *matrix, pointer, *matrix, *tail)
    library.cublasGemmStridedBatchedEx.argtypes = (
        *(*head, *strided, *strided, pointer, *strided),
        *(number, *tail),
    )
    return library


def check_status(what: str, status: int) -> None:
    """Raise an error if a function of the library, named by `what`, failed."""
    if status:
        raise RuntimeError(f"{what} failed with cublasStatus_t {status}")


class Lt:
    """cuBLASLt on a device: its functions, a handle, and a launch that keeps the lock."""

    def __init__(self) -> None:
        self.library, self.handle = _typed_lt(cuda_library("cublasLt")), ctypes.c_void_p()
        self.keeping = cuda_library("cublasLt", ctypes.PyDLL).cublasLtMatmul
        self.keeping.argtypes = self.library.cublasLtMatmul.argtypes
        check_status("cublasLtCreate", self.library.cublasLtCreate(ctypes.byref(self.handle)))


@cache
def lt_of(device: int) -> Lt:
    """Return the library on the current device, given by its number; made once."""
    return Lt()


def _typed_lt(library: ctypes.CDLL) -> ctypes.CDLL:
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
