"""Sizes beyond one launch, beyond 32 bits, or beyond the free memory."""

from __future__ import annotations

import pytest
import rnnc
import torch

LSTM = rnnc.cells.lstm


def call_of(batch, steps, heads, dim):
    """Inputs of an LSTM without gaps, made on the device."""

    def draw(*size, scale=1.0):
        return (torch.randn(size, device="cuda", dtype=torch.bfloat16) * scale).requires_grad_()

    wx = draw(batch, steps, heads, dim, 4)
    return wx, draw(4, heads, dim, dim, scale=dim**-0.5), draw(4, heads, dim, scale=0.5)


def check(wx, R, b, rows, heads, variant="auto"):
    """A call's outputs and gradients on some rows and heads, against float64."""
    (h, _), (last, _) = rnnc.scan(LSTM, wx, R, b, variant=variant)
    (h.float().sum() + last.float().sum()).backward()
    part = [t.detach().double() for t in (wx[rows][:, :, heads], R[:, heads], b[:, heads])]
    part = [t.requires_grad_() for t in part]
    (wanted, _), (wanted_last, _) = rnnc.scan(LSTM, *part, backend="reference")
    (wanted.sum() + wanted_last.sum()).backward()
    for got, exact in (
        (h[rows][:, :, heads], wanted),
        (last[rows][:, heads], wanted_last),
        (wx.grad[rows][:, :, heads], part[0].grad),
        # Those of weights are sums over all rows.
        *([(R.grad[:, heads], part[1].grad)] if len(rows) == len(wx) else []),
    ):
        # Another row's or head's values are off by as much as there is.
        assert (got.double() - exact).norm() < 0.02 * exact.norm()
    # A bias is added to its gate: its gradient is the sum over rows and steps.
    total = wx.grad.double().sum((0, 1)).permute(2, 0, 1)
    assert (b.grad.double() - total).norm() < 0.02 * total.norm()


def ends(count, some=64):
    """The first of so many, those about the border of 65,535 tiles of 8, and the last."""
    picked = [*range(some), *range(8 * 65535 - some, 8 * 65535 + some), *range(count - some, count)]
    return torch.tensor(sorted({i for i in picked if i < count}), device="cuda")


@pytest.mark.parametrize(("variant", "dim"), [("auto", 64), ("block", 32), ("cluster", 64)])
def test_a_batch_beyond_a_launch(variant, dim, needs_plan):
    needs_plan(LSTM, 1, dim, 530_000, torch.bfloat16, variant)
    check(*call_of(530_000, 2, 1, dim), ends(530_000), [0], variant)


@pytest.mark.parametrize(
    ("variant", "dim"), [("auto", 4), ("auto", 8), ("block", 8), ("cluster", 32)]
)
def test_heads_beyond_a_launch(variant, dim, needs_plan):
    needs_plan(LSTM, 66_000, dim, 3, torch.bfloat16, variant)
    heads = torch.tensor([0, 1, 65534, 65535, 65536, 65999], device="cuda")
    check(*call_of(3, 2, 66_000, dim), torch.arange(3, device="cuda"), heads, variant)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["auto", "block", "cluster"])
def test_a_matrix_of_more_than_2_31_elements(variant, needs_plan):
    if torch.cuda.mem_get_info()[0] < 30 * 2**30:
        pytest.skip("needs 30 GiB of free memory")
    needs_plan(LSTM, 33_000, 128, 2, torch.bfloat16, variant)
    wx, R, b = call_of(2, 2, 33_000, 128)
    assert R.numel() > 2**31
    heads = torch.tensor([0, 1, 16_383, 16_384, 32_768, 32_999], device="cuda")
    check(wx, R, b, torch.arange(2, device="cuda"), heads, variant)


def test_a_grid_s_buffers_that_do_not_fit_make_way_for_another_plan():
    wx, R, b = call_of(1, 20_000, 1, 768)
    (h, _), _ = rnnc.scan(LSTM, wx, R, b)
    wanted = torch.autograd.grad(h.float().sum(), wx)[0].double()
    torch.cuda.synchronize()
    (h, _), _ = rnnc.scan(LSTM, wx, R, b)
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    # The backward of a grid gives its gates' gradients through 938 MiB.
    share = (torch.cuda.memory_reserved() + 700 * 2**20) / total
    torch.cuda.set_per_process_memory_fraction(share)
    try:
        with pytest.warns(RuntimeWarning, match="plan of lstm where it would run the grid plan"):
            got = torch.autograd.grad(h.float().sum(), wx)[0].double()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert (got - wanted).norm() < 0.05 * wanted.norm()
