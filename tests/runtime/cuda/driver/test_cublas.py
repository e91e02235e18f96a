"""The calls to cuBLAS, with a fake library that multiplies on the host."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager, nullcontext

import pytest
import torch
from rnnc.runtime.cuda.driver import cublas, matmul
from rnnc.runtime.cuda.driver.cublas import Blas
from rnnc.runtime.cuda.driver.matmul import ByGemmEx
from rnnc.runtime.cuda.products import multiply
from rnnc.runtime.cuda.products.multiply import EXACT, ROUNDED
from torch import Tensor

KINDS = {0: torch.float32, 1: torch.float64, 2: torch.float16, 14: torch.bfloat16}
BUFFER = {4: ctypes.c_float, 8: ctypes.c_double, 2: ctypes.c_uint16}


def matrix(address, kind, rows, columns, pitch, count, stride) -> Tensor:
    """(count, rows, columns) that lie by columns."""
    dtype = KINDS[kind]
    size = (count - 1) * stride + (columns - 1) * pitch + rows
    raw = (BUFFER[dtype.itemsize] * size).from_address(address)
    flat = torch.frombuffer(raw, dtype=dtype)
    return flat.as_strided((count, rows, columns), (stride, 1, pitch))


def number(scale):
    """A float32 or float64 of 0 or 1, by its address: both begin with zeros where they are 0."""
    if not isinstance(scale, int):
        return scale._obj.value
    found = ctypes.c_float.from_address(scale).value, ctypes.c_double.from_address(scale).value
    return 1.0 if 1.0 in found else 0.0


class Library:
    """The functions that are called, in their order."""

    def __init__(self):
        self.calls, self.computes = [], []

    def cublasCreate_v2(self, handle):  # noqa: N802
        return 0

    def cublasSetStream_v2(self, handle, stream):  # noqa: N802
        self.calls.append(("stream", stream))
        return 0

    def cublasSetWorkspace_v2(self, handle, address, size):  # noqa: N802
        self.calls.append(("workspace", address, size))
        return 0

    def cublasGemmEx(self, *given):  # noqa: N802
        values = [getattr(v, "value", v) for v in given]
        _, opa, opb, m, n, k, one, a, a_kind, lda, b, b_kind, ldb, zero, c, c_kind, ldc, *more = (
            values
        )
        operands = (a, a_kind, lda, 0), (b, b_kind, ldb, 0), (c, c_kind, ldc, 0)
        return self.multiply((opa, opb), (m, n, k), (one, zero), *operands, 1, *more)

    def cublasGemmStridedBatchedEx(self, *given):  # noqa: N802
        values = [getattr(v, "value", v) for v in given]
        _, opa, opb, m, n, k, one, *rest = values
        a, b, zero, c = rest[:4], rest[4:8], rest[8], rest[9:13]
        return self.multiply((opa, opb), (m, n, k), (one, zero), a, b, c, *rest[13:])

    def multiply(self, turns, sizes, scales, a, b, c, count, compute, algorithm):
        (opa, opb), (m, n, k) = turns, sizes
        one, add = map(number, scales)
        assert (one, algorithm) == (1, -1)
        self.computes.append(compute)
        (rows, columns), (deep, wide) = (k, m) if opa else (m, k), (n, k) if opb else (k, n)
        assert a[2] >= rows
        assert b[2] >= deep
        first = matrix(*a[:2], rows, columns, a[2], count, a[3]).double()
        second = matrix(*b[:2], deep, wide, b[2], count, b[3]).double()
        result = matrix(*c[:2], m, n, c[2], count, c[3])
        product = (first.mT if opa else first) @ (second.mT if opb else second)
        result.copy_(product + add * result if add else product)
        return 0


@pytest.fixture
def blas(monkeypatch):
    @contextmanager
    def alone():
        yield

    monkeypatch.setattr(cublas, "beside_captures", alone)
    return Blas(Library())


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(1, 3, 5, 7), (4, 3, 5, 7), (3, 1, 1, 1), (2, 1, 6, 1)])
@pytest.mark.parametrize("dtype", KINDS.values(), ids=str)
def test_each_product(blas, without_lt, dtype, sizes, transposed):
    count, rows, inner, columns = sizes
    real = torch.float64 if dtype == torch.float64 else torch.float32
    a = torch.randn(count, rows, inner).to(dtype)
    b = torch.randn(count, *((columns, inner) if transposed else (inner, columns))).to(dtype)
    to = torch.full((count, rows, columns), torch.nan, dtype=real)
    each = (0, inner), (1, inner) if transposed else (0, columns)
    kind, places = multiply.product_kind(to, a, b, each, tf32=True, add=False)
    ByGemmEx(kind, 0)(*places, 5, 0, 0)
    wanted = a.double() @ (b.mT if transposed else b).double()
    torch.testing.assert_close(to.double(), wanted, rtol=1e-6, atol=1e-6)
    computes = {torch.float32: 77, torch.float64: 70}
    assert blas.library.computes == [computes.get(dtype, 68)]


LAYOUTS = {
    "rows": lambda *shape: torch.randn(shape),
    "columns": lambda *shape: torch.randn(*shape[:-2], shape[-1], shape[-2]).mT,
    "a part of wider rows": lambda *shape: torch.randn(*shape[:-1], shape[-1] + 3)[..., 1:-2],
    "gaps": lambda *shape: torch.randn(*shape, 2)[..., 0],
    "heads inside": lambda *shape: torch.randn(shape[-2], *shape[:-2], shape[-1]).movedim(0, -2),
}


@pytest.fixture
def without_lt(blas, monkeypatch):
    """Products for which cuBLASLt has no algorithm, on the CPU."""
    monkeypatch.setattr(matmul, "_algorithm", lambda *_: None)
    monkeypatch.setattr(matmul, "blas_of", lambda _: blas)
    monkeypatch.setattr(matmul, "workspace_bytes", lambda _: 0)
    monkeypatch.setattr(matmul, "beside_captures", nullcontext)
    monkeypatch.setattr(multiply, "on_device", lambda _: nullcontext())
    monkeypatch.setattr(multiply, "lasting_workspace", lambda *_: torch.empty(0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, raising=False)
    matmul.multiplies.cache_clear()
    yield
    matmul.multiplies.cache_clear()


@pytest.mark.parametrize("sizes", [(3, 5, 7), (4, 3, 5, 7), (3, 1, 1, 1), (1, 6, 1), (2, 1, 4, 3)])
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("add", [False, True])
def test_a_product_of_any_strides(blas, without_lt, sizes, first, second, add):
    *count, rows, inner, columns = sizes
    a, b = LAYOUTS[first](*count, rows, inner), LAYOUTS[second](*count, inner, columns)
    to = (
        torch.randn(*count, rows, columns)
        if add
        else torch.full((*count, rows, columns), torch.nan)
    )
    wanted = a.double() @ b.double() + (to.double() if add else 0)
    chosen = ROUNDED if add else EXACT
    (chosen.add_mm if add else chosen.mm_into)(to, a, b)
    torch.testing.assert_close(to.double(), wanted, rtol=1e-6, atol=1e-6)
    assert blas.library.computes == [77 if add else 68]


def test_the_workspace_is_given_after_the_stream_which_takes_it_away(blas):
    workspace = torch.empty(64, dtype=torch.uint8)
    blas.at(5, workspace.data_ptr(), 64)
    assert blas.library.calls == [("stream", 5), ("workspace", workspace.data_ptr(), 64)]


def test_what_is_set_already_is_not_set_again(blas):
    first, second = (torch.empty(64, dtype=torch.uint8) for _ in range(2))
    for stream, workspace in ((5, first), (5, first), (6, first), (6, second), (5, first)):
        blas.at(stream, workspace.data_ptr(), 64)
    assert [call[1] for call in blas.library.calls if call[0] == "stream"] == [5, 6, 6, 5]
    assert len(blas.library.calls) == 8


def test_a_failure_is_named(blas):
    blas.library.cublasSetStream_v2 = lambda *_: 14
    with pytest.raises(RuntimeError, match="cublasSetStream failed with cublasStatus_t 14"):
        blas.at(5, 64, 64)
