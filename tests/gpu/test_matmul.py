"""Products by cuBLASLt against float64: every layout that calls have, in memory that held NaN."""

from __future__ import annotations

import itertools

import pytest
import torch
from rnnc.runtime.cuda.driver import matmul
from rnnc.runtime.cuda.driver.streams import on_device
from rnnc.runtime.cuda.products.multiply import EXACT, ROUNDED, Gemm, Many

LAYOUTS = {
    "rows": lambda *shape: shape_of(*shape),
    "columns": lambda *shape: shape_of(*shape[:-2], shape[-1], shape[-2]).mT,
    "a part of wider rows": lambda *shape: shape_of(*shape[:-1], shape[-1] + 3)[..., 1:-2],
    "heads inside": lambda *shape: shape_of(shape[-2], *shape[:-2], shape[-1]).movedim(0, -2),
}


def shape_of(*shape):
    return torch.randn(shape, device="cuda")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("sizes", [(300, 5, 7), (4, 256, 64, 128), (2, 1, 64, 3)])
def test_other_dtypes(sizes, dtype):
    *count, rows, inner, columns = sizes
    for first, second in itertools.product(LAYOUTS.values(), repeat=2):
        a, b = first(*count, rows, inner).to(dtype), second(*count, inner, columns).to(dtype)
        to = torch.full((*count, rows, columns), torch.nan, device="cuda", dtype=dtype)
        wanted = a.double() @ b.double()
        for multiplier in (EXACT, ROUNDED):
            multiplier.mm_into(to, a, b)
            error = (to.double() - wanted).norm() / wanted.norm()
            assert error < 2 * torch.finfo(dtype).eps + 1e-15


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("multiplier", [EXACT, ROUNDED], ids=["ieee", "tf32"])
@pytest.mark.parametrize("sizes", [(300, 5, 7), (4, 256, 64, 128), (1, 1, 1), (2, 1, 64, 3)])
def test_any_strides(sizes, multiplier, add):
    *count, rows, inner, columns = sizes
    for first, second in itertools.product(LAYOUTS.values(), repeat=2):
        a, b = first(*count, rows, inner), second(*count, inner, columns)
        to = shape_of(*count, rows, columns)
        if not add:
            to.fill_(torch.nan)
        wanted = a.double() @ b.double() + (to.double() if add else 0)
        (multiplier.add_mm if add else multiplier.mm_into)(to, a, b)
        error = (to.double() - wanted).norm() / wanted.norm()
        assert error < (2e-3 if multiplier is ROUNDED else 2e-6)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
def test_products_of_a_step(dtype, heads):
    rows, inner, columns = 128, 72, 40
    real = torch.float64 if dtype == torch.float64 else torch.float32
    gemm, many = Gemm(0, dtype, False), Many(heads, *[0] * 3)

    def drawn(*shape):
        return (0.3 * torch.randn(heads, *shape, device="cuda")).to(dtype)

    def run(method, a, b, sizes, to, **options):
        each = many._replace(first=a[0].numel(), second=b[0].numel(), to=to[0].numel())
        places = [(t.data_ptr(), t.shape[-1]) for t in (a, b, to)]
        method(*sizes, *places, many=each if heads > 1 else None, **options)
        return to.double()

    def empty(*shape, dtype=dtype):
        return torch.full((heads, *shape), torch.nan, device="cuda", dtype=dtype)

    a, b, wide = drawn(rows, inner), drawn(columns, inner), drawn(rows, columns)
    close = {
        "rtol": 1e-2 if dtype.itemsize == 2 else 1e-5,
        "atol": 1e-2 if dtype.itemsize == 2 else 1e-5,
    }
    with on_device(torch.device("cuda", 0)):
        to = run(gemm.forward, a, b, (rows, inner, columns), empty(rows, columns, dtype=real))
        torch.testing.assert_close(to, a.double() @ b.double().mT, rtol=1e-5, atol=1e-5)
        to = run(gemm.backward, wide, b, (rows, columns, inner), empty(rows, inner))
        torch.testing.assert_close(to, wide.double() @ b.double(), **close)
        start = torch.randn(heads, rows, inner, device="cuda", dtype=real)
        kept = start.clone()
        to = run(gemm.backward, wide, b, (rows, columns, inner), kept, sums=True, add=True)
        wanted = start.double() + wide.double() @ b.double()
        torch.testing.assert_close(to, wanted, rtol=1e-5, atol=1e-5)
        to = run(gemm.weights, wide, a, (columns, rows, inner), empty(columns, inner))
        torch.testing.assert_close(to, wide.double().mT @ a.double(), **close)


def test_what_calls_multiply_has_an_algorithm():
    """`cublasGemmEx` is for what cuBLASLt cannot do, which is nothing of these tests."""
    made = [multiplies for multiplies in _made() if not isinstance(multiplies, matmul._ByLt)]
    assert not made


def _made():
    matmul.multiplies.cache_clear()
    kept, original = [], matmul._algorithm
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            matmul, "_algorithm", lambda *given: (kept.append(original(*given)), kept[-1])[1]
        )
        test_any_strides((4, 256, 64, 128), ROUNDED, False)
        test_products_of_a_step(torch.bfloat16, 1)
        test_products_of_a_step(torch.float64, 3)
    return kept
