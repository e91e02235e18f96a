"""Products of float32 with infinities, zeros and the largest numbers follow IEEE."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, State, gate
from torch import Tensor

LARGEST = torch.finfo(torch.float32).max
SPECIAL = [0.0, torch.inf, -torch.inf, LARGEST, -LARGEST, 1e30, -3e25, 5000.3, -5000.7, 1.0, 1e-30]


@rnnc.cell
def product(h: State, *, g: Gate = gate(bias=False)):
    """Each step is a product and a sum, and nothing else."""
    return g


@pytest.fixture(params=["block", "cluster", "grid"])
def variant(request) -> str:
    return request.param


def matrices(dim: int, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """R and states with one special number in each row; the numbers meet each other and others."""
    torch.manual_seed(seed)
    special = torch.tensor(SPECIAL)
    R, states = torch.randn(dim, dim), torch.randn(rows, dim)
    for matrix in (R, states):
        size = matrix.shape[0]
        places = torch.randint(min(dim, 5), (size,))
        matrix[torch.arange(size), places] = special[torch.randint(len(SPECIAL), (size,))]
    return R.cuda(), states.cuda()


def check(got: Tensor, left: Tensor, right: Tensor) -> None:
    """Rows of `left` times rows of `right`, where no sum of finite products overflows."""
    products = left.double()[:, None, :] * right.double()[None, :, :]
    wanted = products.sum(-1)
    size = products.abs()
    finite = torch.where(size.isfinite(), size, 0).sum(-1)
    clear = finite < 0.99 * LARGEST
    assert clear.float().mean() > 0.5
    for name, found in (("NaN", torch.isnan), ("inf", torch.isposinf), ("-inf", torch.isneginf)):
        differ = (found(got) != found(wanted)) & clear
        assert not differ.any(), f"{name}: {int(differ.sum())} of {int(clear.sum())} differ"
    numbers = clear & wanted.isfinite()
    error = ((got.double() - wanted).abs() / finite.clamp(min=1e-300))[numbers]
    assert error.max() < 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_infinite_zero_and_huge(variant, seed):
    dim, rows = {"block": 40}.get(variant, 250), 33
    R, states = matrices(dim, rows, seed)
    h0 = states[:, None].clone().requires_grad_()  # (B, N, D)
    wx = torch.zeros(rows, 1, 1, dim, 1, device="cuda")
    _, (last,) = rnnc.scan(product, wx, R[None, None], None, [h0], backend="cuda", variant=variant)
    check(last.detach()[:, 0], states, R)
    _, seeds = matrices(dim, rows, 100 + seed)
    (d_h0,) = torch.autograd.grad(last, h0, seeds[:, None])
    check(d_h0[:, 0], seeds, R.mT)


@pytest.mark.parametrize("payload", [1, 0x1000, 0x400000])
def test_any_nan_of_a_state_stays_one(variant, payload):
    """Where tf32 is allowed, an instruction reads the upper bits alone."""
    dim = {"block": 40}.get(variant, 250)
    R = torch.randn(dim, dim, device="cuda")
    h0 = torch.zeros(3, 1, dim, device="cuda")
    h0.view(torch.int32)[1, 0, 3] = 0x7F800000 + payload
    wx = torch.zeros(3, 1, 1, dim, 1, device="cuda")
    for allowed in (False, True):
        with torch.no_grad():
            _, (last,) = rnnc.scan(
                *(product, wx, R[None, None], None, [h0]),
                backend="cuda",
                variant=variant,
                precision="tf32" if allowed else "ieee",
            )
        assert last[1].isnan().all(), allowed
        assert last[[0, 2]].isfinite().all(), allowed
