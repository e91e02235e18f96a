"""The first result of a process: what it compiles, and what it finds compiled.

Its times are measured by `rnnc bench`, in `api/bench/first_call.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import rnnc
import torch
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.driver.device import device_limits

PROGRAM = """
import logging, sys
import torch, rnnc
logging.basicConfig(level=logging.INFO)
variant, heads, dim = sys.argv[1], *map(int, sys.argv[2:])
wx = torch.randn(16, 64, heads, dim, 4, device="cuda", dtype=torch.bfloat16, requires_grad=True)
R = torch.randn(4, heads, dim, dim, device="cuda", dtype=torch.bfloat16) / dim**0.5
(h, c), _ = rnnc.scan(rnnc.cells.lstm, wx, R, variant=variant)
h.backward(torch.ones_like(h))
assert wx.grad.isfinite().all()
"""
# Heads of the size that each kind of plan is for.
SIZES = {"cluster": (3, 256), "grid": (1, 768)}


def compiled(cache, variant, heads, dim):
    """The lines of a new process's log that say what was compiled, after a first result."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, variant, str(heads), str(dim)],
        env={**os.environ, "RNNC_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if ":rnnc:compiled" in line]


def test_a_first_result_compiles_each_unit_once(variant, tmp_path, needs_plan):
    sizes = SIZES.get(variant, (12, 64))
    needs_plan(rnnc.cells.lstm, *sizes, 16, torch.bfloat16, variant)
    assert compiled(tmp_path, variant, *sizes)
    # A unit for each direction, unless both have the same kernels, as beside the matrix library.
    plan = plan_for(rnnc.cells.lstm, Shape(*sizes, 16), device_limits(0), variant)
    units = {direction.as_compiled() for direction in (plan.forward, plan.backward)}
    assert len(list(tmp_path.glob("lstm-*.cubin"))) == len(units)
    assert compiled(tmp_path, variant, *sizes) == []


def test_the_largest_head_has_a_first_result(tmp_path):
    """R fills the chip, and its kernels take the compiler longest."""
    assert compiled(tmp_path, "auto", 1, 2048)
