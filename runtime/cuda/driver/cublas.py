"""cuBLAS with a handle and a workspace of our own: torch may free its own."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

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
_DEFAULT_ALGORITHM = -1
_TRANSPOSED, _AS_IT_IS = 1, 0
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
        """Set the stream of products, in whose order they use the workspace of `size` bytes.

        The caller has the lock, and keeps it until the products are launched.
        """
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

    @contextmanager
    def on(self, stream: int, workspace: Tensor) -> Iterator[None]:
        """Hold the lock while products go to a stream, in whose order they use the workspace."""
        with self.lock:
            self.at(stream, workspace.data_ptr(), workspace.nbytes)
            yield


class Product:
    """Product of two matrices, or of as many pairs of them as there are: to[i] = a[i] b[i].

    The operands have no gaps. Their addresses are read once: they must outlive the product.

    Args:
        a: (count, rows, K).
        b: (count, K, columns), or its transpose (count, columns, K) if `transposed`.
        to: (count, rows, columns), in float32, or float64 where the others are.
        tf32: whether factors of float32 may be rounded to TF32.
    """

    def __init__(
        self, blas: Blas, a: Tensor, b: Tensor, to: Tensor, *, transposed: bool, tf32: bool
    ) -> None:
        factor, result, compute = KINDS[a.dtype]
        if tf32 and a.dtype == torch.float32:
            compute = FAST_TF32
        number = ctypes.c_double if a.dtype == torch.float64 else ctypes.c_float
        self._scales = number(1), number(0)
        count, rows, inner = a.shape
        columns = to.shape[2]
        # The library's matrices lie by columns: it is given the product of the transposes.
        first = _matrix(b, factor, inner if transposed else columns, count)
        second, third = _matrix(a, factor, inner, count), _matrix(to, result, columns, count)
        sizes = [ctypes.c_int(size) for size in (columns, rows, inner)]
        turns = [_TRANSPOSED if transposed else _AS_IT_IS, _AS_IT_IS]
        one, zero = (ctypes.byref(scale) for scale in self._scales)
        given = [blas.handle, *map(ctypes.c_int, turns), *sizes, one, *first, *second, zero, *third]
        if count > 1:
            given.append(ctypes.c_int(count))
        self._given = (*given, ctypes.c_int(compute), ctypes.c_int(_DEFAULT_ALGORITHM))
        library = blas.library
        # As torch does: of one product alone the library may split K.
        self._run = library.cublasGemmStridedBatchedEx if count > 1 else library.cublasGemmEx

    def __call__(self) -> None:
        """Launch it on the stream that `Blas` was set to."""
        check_status("cublasGemmEx", self._run(*self._given))


def _matrix(tensor: Tensor, kind: int, pitch: int, count: int) -> list[Any]:
    """Return address, type, leading dimension and, of several matrices, stride."""
    found: list[Any] = [ctypes.c_void_p(tensor.data_ptr()), ctypes.c_int(kind), ctypes.c_int(pitch)]
    return [*found, ctypes.c_longlong(tensor.stride(0))] if count > 1 else found


_making = threading.Lock()


def blas_of(device: int) -> Blas:
    """Return the handle of the current device, given by its number; made once."""
    with _making:
        return _blas_of(device)


@cache
def _blas_of(device: int) -> Blas:
    return Blas(_typed(cuda_library("cublas")))


def cuda_library(stem: str, kind: type[ctypes.CDLL] = ctypes.CDLL) -> ctypes.CDLL:
    """Return a library of CUDA, such as `cublas`: the one that torch loaded, or that of a wheel.

    It is a `ctypes.PyDLL` if its functions keep the interpreter's lock.

    Raises:
        NoCudaError: it is missing.
    """
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
