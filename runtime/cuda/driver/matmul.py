"""Products of matrices by cuBLASLt, whose algorithm is chosen once per kind of product.

`cublasGemmEx` chooses it anew in each call, which takes longer on the host than all the rest of a
small product. It multiplies where cuBLASLt has no algorithm.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

from .algorithms import Proposal, cluster_of, with_small_clusters
from .capture import beside_captures
from .cublas import Lt, blas_of, check_status, lt_of, workspace_bytes
from .device import is_described

# cublas_api.h and library_types.h: CUBLAS_COMPUTE_64F, CUDA_R_32F and CUDA_R_64F.
_COMPUTE_64F, _FLOAT, _DOUBLE = 70, 0, 1
_DEFAULT_ALGORITHM = -1
# cublasLt.h: attributes of a product, of a matrix, and of the search for an algorithm.
_TURN_FIRST, _TURN_SECOND = 3, 4
_COUNT, _APART = 5, 6
_WORKSPACE, _REDUCTIONS, _ALIGNED = 1, 3, (5, 6, 7, 8)
# Parts of a sum are added where they lie, or in the compute type; never in two-byte elements.
_EXACT_REDUCTIONS = 1 | 2
WIDEST_ACCESS = 16  # bytes
_MOST_PROPOSALS = 16
# `turns` of a factor: cublasOperation_t.
AS_IT_IS, TRANSPOSED = 0, 1


class Matrix(NamedTuple):
    """Matrix as the library sees it, by columns.

    The kind of its elements is a cudaDataType. There are `pitch` elements between columns, and
    `apart` between two matrices of several products. `aligned` bytes, at most 16, divide its
    address.
    """

    kind: int
    pitch: int
    apart: int
    aligned: int


class Matmul(NamedTuple):
    """Kind of product: to = first second, or to += first second with `add`, by columns.

    `turns` tells whether each factor is transposed, and `inner` is the length of the sums. Each of
    the products is on matrices of its own. `compute` is a cublasComputeType_t.
    """

    turns: tuple[int, int]
    rows: int
    columns: int
    inner: int
    first: Matrix
    second: Matrix
    to: Matrix
    products: int
    compute: int
    add: bool


class Multiplies:
    """Launcher of products of one kind; this one, of a GPU that is not there, launches none.

    Attributes:
        needs: bytes of memory that a product uses beside its operands.
        cluster: blocks per cluster of its kernel; None where the library does not tell.
    """

    needs: int = 0
    cluster: int | None = 1

    def __call__(
        self, first: int, second: int, to: int, stream: int, workspace: int, size: int
    ) -> None:
        """Launch a product by addresses, with `size` bytes of workspace, which those of a stream
        share.
        """
        raise AssertionError("a product on a GPU that is only described")


def aligned(address: int) -> int:
    """Return the bytes that divide an address, at most 16."""
    return min(address & -address, WIDEST_ACCESS) if address else WIDEST_ACCESS


@lru_cache(maxsize=4096)
def multiplies(kind: Matmul, device: int, most_cluster: int | None = None) -> Multiplies:
    """Return the launcher of products of a kind on the current device; made once.

    Its algorithm has at most `most_cluster` blocks per cluster, if there is such a one; None is
    any.
    """
    if is_described(device):
        return Multiplies()
    with beside_captures():
        algorithm = _algorithm(kind, device, most_cluster)
    return ByGemmEx(kind, device) if algorithm is None else algorithm


class _ByLt(Multiplies):
    """Products by cuBLASLt, with one algorithm."""

    def __init__(
        self, lt: Lt, chosen: Proposal, kept: list[Any], scales: Any, operation: Any
    ) -> None:
        self._kept, self._keeping = [chosen, *kept], lt.keeping
        self._launch, self._operation = lt.library.cublasLtMatmul, operation
        self.needs, self.cluster = chosen.workspace, cluster_of(lt.library, chosen)
        self._scales, self._algorithm = scales, ctypes.addressof(chosen)

    def __call__(
        self, first: int, second: int, to: int, stream: int, workspace: int, size: int
    ) -> None:
        (handle, product, a, b, c), (one, beta) = self._operation, self._scales
        status = self._launch(
            *(handle, product, one, first, a, second, b, beta, to, c, to, c),
            *(self._algorithm, workspace, size, stream),
        )
        check_status("cublasLtMatmul", status)
        # Its kernel is loaded: it does not wait again.
        self._launch = self._keeping


class ByGemmEx(Multiplies):
    """Products by cuBLAS, for one thread at a time."""

    def __init__(self, kind: Matmul, device: int) -> None:
        self._kind, self._blas, self._numbers = kind, blas_of(device), _numbers(kind)
        # It chooses an algorithm by the bytes that it is given.
        self.needs, self.cluster = workspace_bytes(device), None

    def __call__(
        self, first: int, second: int, to: int, stream: int, workspace: int, size: int
    ) -> None:
        """Launch a product; see `Multiplies`."""
        kind, blas = self._kind, self._blas
        one, beta = (ctypes.addressof(number) for number in self._numbers)
        a, b, c = kind.first, kind.second, kind.to
        head = (blas.handle, *kind.turns, kind.rows, kind.columns, kind.inner, one)
        tail = (kind.compute, _DEFAULT_ALGORITHM)
        with blas.lock:
            blas.at(stream, workspace, size)
            if kind.products == 1:
                status = blas.library.cublasGemmEx(
                    *(*head, first, *a[:2], second, *b[:2], beta, to, *c[:2], *tail)
                )
            else:
                status = blas.library.cublasGemmStridedBatchedEx(
                    *(*head, first, *a[:3], second, *b[:3], beta, to, *c[:3], kind.products, *tail)
                )
        check_status("cublasGemmEx", status)


def _numbers(kind: Matmul) -> tuple[Any, Any]:
    """Return the factors of the product and of what is there."""
    number = ctypes.c_double if kind.compute == _COMPUTE_64F else ctypes.c_float
    return number(1), number(kind.add)


def _algorithm(kind: Matmul, device: int, most_cluster: int | None) -> _ByLt | None:
    """Return the first algorithm proposed, or the first with small clusters; None without any."""
    lt, numbers = lt_of(device), _numbers(kind)
    library, product, search = lt.library, ctypes.c_void_p(), ctypes.c_void_p()
    scale = _DOUBLE if kind.compute == _COMPUTE_64F else _FLOAT
    _made(library.cublasLtMatmulDescCreate(ctypes.byref(product), kind.compute, scale))
    for attribute, turn in zip((_TURN_FIRST, _TURN_SECOND), kind.turns, strict=True):
        _set(library.cublasLtMatmulDescSetAttribute, product, attribute, ctypes.c_int32(turn))
    sizes = [(kind.rows, kind.inner), (kind.inner, kind.columns), (kind.rows, kind.columns)]
    layouts = []
    for matrix, (rows, columns), turn in zip(
        (kind.first, kind.second, kind.to), sizes, (*kind.turns, 0), strict=True
    ):
        layout = ctypes.c_void_p()
        shape = (columns, rows) if turn else (rows, columns)
        _made(
            library.cublasLtMatrixLayoutCreate(
                ctypes.byref(layout), matrix.kind, *shape, matrix.pitch
            )
        )
        if kind.products > 1:
            put = library.cublasLtMatrixLayoutSetAttribute
            _set(put, layout, _COUNT, ctypes.c_int32(kind.products))
            _set(put, layout, _APART, ctypes.c_int64(matrix.apart))
        layouts.append(layout)
    first, second, to = layouts
    _made(library.cublasLtMatmulPreferenceCreate(ctypes.byref(search)))
    put = library.cublasLtMatmulPreferenceSetAttribute
    _set(put, search, _WORKSPACE, ctypes.c_uint64(workspace_bytes(device)))
    _set(put, search, _REDUCTIONS, ctypes.c_uint32(_EXACT_REDUCTIONS))
    for attribute, matrix in zip(
        _ALIGNED, (kind.first, kind.second, kind.to, kind.to), strict=True
    ):
        _set(put, search, attribute, ctypes.c_uint32(matrix.aligned))
    most, count = 1 if most_cluster is None else _MOST_PROPOSALS, ctypes.c_int()
    proposals = (Proposal * most)()
    status = library.cublasLtMatmulAlgoGetHeuristic(
        *(lt.handle, product, first, second, to, to, search, most, proposals, ctypes.byref(count))
    )
    library.cublasLtMatmulPreferenceDestroy(search)
    # Each of its own memory: an element of the array would keep all of it.
    found = [Proposal.from_buffer_copy(each) for each in proposals[: count.value]]
    found = [each for each in found if not each.state]
    if status or not found:
        return None
    chosen, operation = found[0], (lt.handle, product, first, second, to)
    if most_cluster is not None:
        asked = found, operation, most_cluster, workspace_bytes(device)
        chosen = with_small_clusters(library, *asked)
    scales = [ctypes.byref(number) for number in numbers]
    return _ByLt(lt, chosen, [*numbers], scales, operation)


def _set(function: Any, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
    """Set an attribute of a product, a matrix or a search."""
    _made(function(of, attribute, ctypes.byref(value), ctypes.sizeof(value)))


def _made(status: int) -> None:
    check_status("cublasLt", status)
