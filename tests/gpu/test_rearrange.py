"""The kernel that sums parts, permutes axes and converts elements, against torch."""

from __future__ import annotations

import pytest
import torch
from rnnc.runtime.cuda.products import rearrange as module
from rnnc.runtime.cuda.products.rearrange import CudaMoves, Job, in_order, rearrange

KINDS = [
    *((dtype, dtype) for dtype in module._CONVERTED),
    *((read, dtype) for dtype, read in module._CONVERTED.items() if read is not None),
]


@pytest.fixture
def counted(monkeypatch):
    """The jobs that the kernel leaves to torch."""
    left, by_torch = [], module.by_torch
    monkeypatch.setattr(module, "by_torch", lambda job: (left.append(job), by_torch(job)))
    return left


def drawn(*shape, dtype):
    return torch.randn(*shape, device="cuda", dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("inner", [1, 3, 4, 72, 1024])
def test_values(kind, inner, counted):
    source, result = kind
    jobs = []
    for parts, sizes in ((1, (5, 3, 4)), (2, (3, 1, 2)), (17, (2, 7)), (3, ()), (1, (130, 2, 65))):
        whole = drawn(parts, *sizes[::-1], inner, dtype=source)
        order = (0, *range(len(sizes), 0, -1), len(sizes) + 1)
        to = torch.full((*sizes, inner), torch.nan, device="cuda", dtype=result)
        jobs.append(Job(to, whole.permute(order)))
        middle = drawn(parts, *sizes, 3 * inner, dtype=source)[..., inner : 2 * inner]
        jobs.append(Job(torch.full_like(to, torch.nan), middle))
        # A part of a wider tensor, and a transpose.
        wider = torch.full((*sizes, 3 * inner), torch.nan, device="cuda", dtype=result)
        jobs.append(Job(wider[..., inner : 2 * inner], middle))
        if sizes:
            turned = drawn(parts, *sizes[:-1], inner, sizes[-1], dtype=source).mT
            jobs.append(Job(torch.full_like(to, torch.nan), turned))
            jobs.append(Job(wider[..., :inner], turned))
    rearrange(jobs)
    assert not counted
    for to, parts in jobs:
        wanted = parts.double().sum(0)
        if len(parts) == 1:
            assert torch.equal(to, wanted.to(result))
        else:
            error = 1e-12 if source == torch.float64 == result else 1e-6
            rounding = torch.finfo(result).eps if result.itemsize == 2 else 0
            torch.testing.assert_close(to.double(), wanted, atol=20 * error, rtol=error + rounding)


def test_what_the_kernel_does_not_take_is_left_to_torch(counted):
    matrix = drawn(6, 8, dtype=torch.float32)
    jobs = [
        Job(matrix.new_empty(6, 4), matrix[None, :, ::2]),
        Job(matrix.new_empty(6, 16)[:, ::2], matrix[None]),
        Job(matrix.new_empty(6, 8, dtype=torch.float16), matrix.double()[None]),
        Job(matrix.new_empty(0, 8), matrix[None, :0]),
        Job(matrix.new_empty(6, 8), matrix[None]),
    ]
    rearrange(jobs)
    assert len(counted) == 3
    for to, parts in jobs:
        assert torch.equal(to, parts.sum(0).to(to.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_copies_at_once(dtype):
    weights = [drawn(4, 1, 24, 40, dtype=dtype) for _ in range(2)]
    biases = [drawn(4, 1, 24, dtype=dtype) for _ in range(2)]
    with CudaMoves() as moves:
        both = moves.cat(weights, 1), moves.cat(biases, 1)
        rows = moves.cat([w.permute(1, 2, 0, 3) for w in weights], 0)
        packed = moves.packed(weights[0].mT)
        assert moves.packed(biases[0]) is biases[0]
    for found, parts in zip(both, (weights, biases), strict=True):
        assert torch.equal(found, torch.cat(parts, 1))
    assert torch.equal(rows, torch.cat([w.permute(1, 2, 0, 3) for w in weights]))
    assert torch.equal(packed, weights[0].mT)


def test_a_tensor_without_gaps_is_not_copied():
    weight = drawn(4, 2, 8, 16, dtype=torch.float32)
    assert in_order(weight)[0] is weight
    to, jobs = in_order(weight.permute(1, 2, 0, 3))
    rearrange(jobs)
    assert torch.equal(to, weight.permute(1, 2, 0, 3))
    assert to.is_contiguous()
