"""A product of many rows with one matrix, cut into blocks of rows that are launched one by one."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from .cublas import FAST_TF32, KINDS, Blas

_DEFAULT_ALGORITHM = -1
_TRANSPOSED, _AS_IT_IS = 1, 0
_NUMBERS = {torch.float64: (ctypes.c_double(1), ctypes.c_double(0))}
_FLOATS = ctypes.c_float(1), ctypes.c_float(0)


class RowProducts:
    """The products of blocks of rows with a matrix. Their arguments are written once.

    The tensors must outlive the launches.

    Args:
        to: (rows, columns), contiguous.
        a: (rows, K), contiguous; or (rows of a block, K), if all blocks read the same memory.
        b: (K, columns), contiguous, or the transpose of such a matrix.
        rows: of a block; the last one may have fewer.
        tf32: whether factors of float32 may be rounded to TF32.
    """

    __slots__ = ("_a", "_begin", "_full", "_last", "_middle", "_rows", "_tail", "_then", "_to")

    def __init__(self, to: Tensor, a: Tensor, b: Tensor, rows: int, tf32: bool) -> None:
        count, columns = to.shape
        inner, size = a.shape[1], to.element_size()
        kind, _, compute = KINDS[to.dtype]
        if tf32 and to.dtype == torch.float32:
            compute = FAST_TF32
        one, zero = (ctypes.byref(number) for number in _NUMBERS.get(to.dtype, _FLOATS))
        turned = b.stride(1) != 1
        # The library's matrices lie by columns: it is given the product of the transposes.
        self._begin = _TRANSPOSED if turned else _AS_IT_IS, _AS_IT_IS, columns
        pitch = inner if turned else columns
        self._then = inner, one, b.data_ptr(), kind, pitch
        self._middle = kind, inner, zero
        self._tail = kind, columns, compute, _DEFAULT_ALGORITHM
        self._full = (count - 1) // rows
        self._rows, self._last = rows, count - self._full * rows
        # First address and bytes per block.
        self._a = a.data_ptr(), rows * inner * size if len(a) == count else 0
        self._to = to.data_ptr(), rows * columns * size

    def launch(self, blas: Blas, block: int) -> None:
        """Launch the product of a block where `Blas.at` said.

        Args:
            blas: the library.
            block: its number.
        """
        rows = self._rows if block < self._full else self._last
        (a, a_step), (to, to_step) = self._a, self._to
        blas.run(
            *self._begin,
            *(rows, *self._then),
            *(a + block * a_step, *self._middle),
            *(to + block * to_step, *self._tail),
        )
