"""Products of cuBLAS by addresses: a single step takes no host time for tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..products.multiply import multiply
from .cublas import FAST_TF32, KINDS
from .matmul import AS_IT_IS, TRANSPOSED, Matmul, Matrix, aligned

# An address, and the elements between rows.
Place = tuple[int, int]
# Rows, inner and columns of a product, its factors a and b, and where the result goes.
Operands = tuple[int, int, int, Place, Place, Place]


class Many(NamedTuple):
    """Products of several heads; the other fields are elements between their operands."""

    heads: int
    first: int
    second: int
    to: int


class Gemm:
    """Row-major products of one dtype on the current device, on torch's current stream.

    Matrices are given by address and by elements between rows. With `tf32`, factors of float32 may
    be rounded to TF32.
    """

    def __init__(self, device: int, dtype: torch.dtype, tf32: bool) -> None:
        self._device, self._bytes = device, dtype.itemsize
        self._factor, self._sum, compute = KINDS[dtype]
        self._compute = FAST_TF32 if tf32 and dtype == torch.float32 else compute

    def forward(self, *given: *Operands, many: Many | None = None) -> None:
        """Multiply, into sums: to (rows, columns) = a (rows, inner) b^T of b (columns, inner)."""
        self._run((TRANSPOSED, AS_IT_IS), given, self._sum, False, many)

    def backward(
        self, *given: *Operands, many: Many | None = None, sums: bool = False, add: bool = False
    ) -> None:
        """Multiply: to = a (rows, inner) b (inner, columns), or += with `add`; sums with `sums`."""
        kind = self._sum if sums else self._factor
        self._run((AS_IT_IS, AS_IT_IS), given, kind, add, many)

    def weights(self, *given: *Operands, many: Many | None = None) -> None:
        """Multiply: to (rows, columns) = the transpose of a (inner, rows) times b."""
        self._run((AS_IT_IS, TRANSPOSED), given, self._factor, False, many)

    def _run(
        self, turns: tuple[int, int], given: Operands, kind: int, add: bool, many: Many | None
    ) -> None:
        """Launch a product of the transposes: the library's matrices lie by columns."""
        rows, inner, columns, b, a, to = given
        each = Many(1, 0, 0, 0) if many is None else many
        apart = each.second, each.first, each.to
        first, second, third = (
            Matrix(element, pitch, far, aligned(place | far * self._bytes))
            for element, (place, pitch), far in zip(
                (self._factor, self._factor, kind), (a, b, to), apart, strict=True
            )
        )
        sizes = columns, rows, inner
        matmul = Matmul(turns, *sizes, first, second, third, each.heads, self._compute, add)
        multiply(matmul, self._device, (a[0], b[0], to[0]))
