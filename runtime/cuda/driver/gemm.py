"""Products of cuBLAS by addresses: what a single step multiplies takes no host time for tensors."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any, NamedTuple

import torch

from ...replay.recorder import recording
from ..remultiply import remultiply
from .cublas import FAST_TF32, KINDS, blas_of, check_status

_DEFAULT_ALGORITHM = -1
_AS_IT_IS, _TRANSPOSED = 0, 1
_ONE_OF = {torch.float64: ctypes.c_double}


class Many(NamedTuple):
    """As many products as there are heads, and how far their operands are apart, in elements.

    Attributes:
        heads: how many.
        first: between the first factors.
        second: between the second factors.
        to: between the results.
    """

    heads: int
    first: int
    second: int
    to: int


class Gemm:
    """Row-major products of one dtype on one device, on the stream of `at`.

    Args:
        device: the device's number; it must be the current one.
        dtype: of the factors.
        tf32: whether factors of float32 may be rounded to TF32.
    """

    def __init__(self, device: int, dtype: torch.dtype, tf32: bool) -> None:
        self._device, self._blas = device, blas_of(device)
        self._factor, self._sum, compute = KINDS[dtype]
        self._compute = FAST_TF32 if tf32 and dtype == torch.float32 else compute
        number = _ONE_OF.get(dtype, ctypes.c_float)
        self._numbers = number(0), number(1)
        self._scales = tuple(ctypes.addressof(n) for n in self._numbers)
        library = self._blas.library
        self._single, self._batched = library.cublasGemmEx, library.cublasGemmStridedBatchedEx
        self._handle = self._blas.handle.value
        # Whoever multiplies has the lock from `at` until the products are launched.
        self.lock, self.at = self._blas.lock, self._blas.at

    def forward(
        self,
        rows: int,
        inner: int,
        columns: int,
        a: tuple[int, int],
        b: tuple[int, int],
        to: tuple[int, int],
        many: Many | None = None,
    ) -> None:
        """Multiply: to (rows, columns) = a (rows, inner) times the transpose of b (columns, inner).

        The result is in the accuracy of sums. Matrices are given by address and by elements between
        rows.
        """
        given = (_TRANSPOSED, _AS_IT_IS, columns, rows, inner)
        self._run(given, b, a, to, self._sum, False, many)

    def backward(
        self,
        rows: int,
        inner: int,
        columns: int,
        a: tuple[int, int],
        b: tuple[int, int],
        to: tuple[int, int],
        many: Many | None = None,
        *,
        sums: bool = False,
        add: bool = False,
    ) -> None:
        """Multiply: to (rows, columns) = a (rows, inner) b (inner, columns); to += a b with `add`.

        The result is in the accuracy of sums with `sums`, else in that of factors.
        """
        kind = self._sum if sums else self._factor
        self._run((_AS_IT_IS, _AS_IT_IS, columns, rows, inner), b, a, to, kind, add, many)

    def weights(
        self,
        rows: int,
        inner: int,
        columns: int,
        a: tuple[int, int],
        b: tuple[int, int],
        to: tuple[int, int],
        many: Many | None = None,
    ) -> None:
        """Multiply: to (rows, columns) = the transpose of a (inner, rows) times b."""
        given = (_AS_IT_IS, _TRANSPOSED, columns, rows, inner)
        self._run(given, b, a, to, self._factor, False, many)

    def _run(
        self,
        given: tuple[int, ...],
        a: tuple[int, int],
        b: tuple[int, int],
        to: tuple[int, int],
        kind: int,
        add: bool,
        many: Many | None,
    ) -> None:
        """Launch a product of the transposes: the library's matrices lie by columns."""
        factor, (zero, one) = self._factor, self._scales
        head = (self._handle, *given, one)
        tail = (self._compute, _DEFAULT_ALGORITHM)
        beta = one if add else zero
        arguments: tuple[Any, ...]
        if many is None:
            run, left, right = self._single, (a[0], factor, a[1]), (b[0], factor, b[1])
            arguments = (*head, *left, *right, beta, to[0], kind, to[1], *tail)
        else:
            run, third = self._batched, (to[0], kind, to[1], many.to)
            first, second = (a[0], factor, a[1], many.second), (b[0], factor, b[1], many.first)
            arguments = (*head, *first, *second, beta, *third, many.heads, *tail)
        check_status("cublasGemmEx", run(*arguments))
        recorder = recording()
        if recorder is not None:
            remultiply(recorder, self._blas, self._device, run, arguments)


_making = threading.Lock()


def gemm_of(device: int, dtype: torch.dtype, tf32: bool) -> Gemm:
    """The products of a device, which must be the current one; made once.

    Args:
        device: the device's number.
        dtype: of the factors.
        tf32: whether factors of float32 may be rounded to TF32.

    Raises:
        NoCudaError: cuBLAS is missing.
    """
    with _making:
        return _gemm_of(device, dtype, tf32)


@cache
def _gemm_of(device: int, dtype: torch.dtype, tf32: bool) -> Gemm:
    return Gemm(device, dtype, tf32)
