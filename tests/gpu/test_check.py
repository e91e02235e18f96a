"""`rnnc check --device cuda` and a few cells of `rnnc fuzz --device cuda`."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver.device import device_limits
from rnnc.verify.check_gpu import check_gpu
from rnnc.verify.draw.case import Settings, draw_case
from rnnc.verify.fuzz.run import run_case


@pytest.mark.parametrize("name", ["gru"])
def test_every_plan_that_fits_is_right(name):
    limits = device_limits(torch.cuda.current_device())
    rows = list(check_gpu(rnnc.cells.get(name), limits, seed=1))
    assert {row.variant for row in rows} >= {"block", "grid", "alternating"}
    assert {row.dtype for row in rows} == {"float32", "bfloat16", "float64"}
    failures = [row for row in rows if row.failure or not row.error <= row.bound]
    assert not failures, failures


@pytest.mark.parametrize("number", range(12))
def test_random_cells_are_right(number, tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    outcome = run_case(draw_case(30, number, Settings("cuda", compiled=0.0)))
    assert outcome.verdict != "wrong", "\n".join(outcome.reasons)
