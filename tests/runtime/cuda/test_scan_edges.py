"""Scans and walks as C++, where products of coefficients leave a dtype's range or lose its digits.

Values of whole calls are in test_scan_values.py and test_walk_values.py.
"""

from __future__ import annotations

import sys

import pytest
import rnnc
import torch
from rnnc.runtime.cuda import prepared, ready

from ...linear_scans import EDGES, bare, check_as_the_loop, edges, run, small_tiles
from ...walk_calls import scan_in_parts

KINDS = ("scan", "walk")
LOOP = run("reference")


pytestmark = pytest.mark.usefixtures("emulated_blocks", "poisoned")


@pytest.mark.parametrize(("kind", "parts"), [("scan", 0), ("scan", 2), ("walk", 0)])
@pytest.mark.parametrize("mixed", [False, True])
def test_coefficients_at_the_edges(kind, parts, mixed, monkeypatch):
    """States reach 1e5 with a coefficient of 1.03, and come from 1e-30 back to 1."""
    scan_in_parts(monkeypatch, parts)
    check_as_the_loop(edges(400, mixed), run("simulated", kind), LOOP, draws=2)


@pytest.mark.parametrize("steps", [100, 5000])
def test_errors_are_those_of_a_loop_over_time(steps, monkeypatch):
    """Also where a coefficient is the same at all steps, so that each product rounds alike."""
    scan_in_parts(monkeypatch, 0)
    same = torch.tensor([0.9, 0.99, 0.999, 0.9999, 1.0001, 1.001]).expand(1, steps, 1, 6)
    a = torch.cat([same, torch.rand(1, steps, 1, 3) ** 0.01], -1)
    check_as_the_loop(a, run("simulated", "scan"), run("cpu"), draws=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_products_of_coefficients_may_leave_the_range_of_the_dtype(dtype, kind, monkeypatch):
    """1e30 again and again, while all states are 0; then 1e-30; then a state of 1e30."""
    small_tiles(monkeypatch)
    steps = 96
    wx = torch.zeros(1, steps, 1, 3, 2)
    wx[..., 0] = 1e30
    wx[:, 40:, :, :, 0] = 1e-30
    wx[:, 40, :, 1, 1] = 1e30  # in the next step 1
    wx[:, 41:44, :, 2, 0] = torch.tensor([0.0, 1e38, 1e38])[:, None]
    wx[:, 41, :, 2, 1] = 1e-38
    seed = torch.zeros(1, steps, 1, 3)
    seed[:, 45] = 1e-20
    wx, seed = wx.to(dtype), seed.to(dtype)
    wanted = LOOP(wx.float(), seed.float())  # double would hold more
    close = 1e-5 if dtype == torch.float32 else 2e-2
    for got, exact in zip(run("simulated", kind)(wx, seed), wanted, strict=True):
        assert exact.to(dtype).isfinite().all()
        torch.testing.assert_close(got, exact.to(dtype), rtol=close, atol=0)
    (h,), _ = rnnc.scan(bare, wx, backend="simulated", variant=kind)
    assert float(h[0, 41, 0, 1]) == pytest.approx(1, rel=close)
    assert h[0, 43, 0, 2] > 1e37


@pytest.mark.parametrize("largest", [1e100, 1e300])
def test_products_in_float64_may_leave_its_range(largest, monkeypatch):
    """Coefficients whose products overflow after a step or three, while all states are 0."""
    small_tiles(monkeypatch)
    scan_in_parts(monkeypatch, 0)
    wx = torch.zeros(1, 40, 1, 2, 2, dtype=torch.float64)
    wx[..., 0] = largest
    wx[:, 24:, :, :, 0] = 0.5
    wx[:, 24, :, :, 1] = 1
    seed = torch.zeros(1, 40, 1, 2, dtype=torch.float64)
    seed[:, 26:, :, 1] = 1
    wx[:, 25, :, 1, 0] = 0  # no gradient reaches the steps before
    for got, wanted in zip(run("simulated", "scan")(wx, seed), LOOP(wx, seed), strict=True):
        assert not got.isnan().any()
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_wherever_tiles_begin(kind, monkeypatch):
    """Blocks that are on the chip at once: how many takes no part in the result."""
    small_tiles(monkeypatch, warps=8)
    wx = torch.stack([edges(600, True), torch.randn(1, 600, 1, len(EDGES))], -1)
    seed, found = torch.randn(1, 600, 1, len(EDGES)), []
    for resident in (1, 2, 5, 26):
        monkeypatch.setattr(sys.modules["emulated_blocks"], "RESIDENT", resident)
        for cached in (ready.ready_for, prepared.prepare):
            cached.cache_clear()
        found.append(run("simulated", kind)(wx, seed))
    for other in found[1:]:
        assert all(map(torch.equal, other, found[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_of_64_bits(kind, tmp_path):
    """Steps of wx that lie 2 GiB apart, in a file of which a few pages exist."""
    apart, steps = 2**29, 9
    file = torch.from_file(
        str(tmp_path / "sparse"), shared=True, size=apart * steps, dtype=torch.float32
    )
    wx = file.as_strided((1, steps, 1, 4, 2), (0, apart, 8, 2, 1))
    wx.copy_(torch.stack([torch.rand(1, steps, 1, 4), torch.randn(1, steps, 1, 4)], -1))
    assert (steps - 1) * apart > 2**31
    (h,), _ = rnnc.scan(bare, wx, backend="simulated", variant=kind)
    (wanted,), _ = rnnc.scan(bare, wx.clone(), backend="reference")
    torch.testing.assert_close(h, wanted)
