"""The time to the first result of a process: compiled before or not, and without a cache."""

from __future__ import annotations

import os
import subprocess
import sys

import rnnc
import torch
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.driver.device import device_limits

# Imports and the start of CUDA are the process's own, and so is what the imports left to Python's
# collector, a tenth of a second that would fall into some call; the clock starts with the call.
PROGRAM = """
import gc, sys, time
import cupy, torch, rnnc
variant, heads, dim = sys.argv[1], *map(int, sys.argv[2:])
wx = torch.randn(16, 64, heads, dim, 4, device="cuda", dtype=torch.bfloat16, requires_grad=True)
R = torch.randn(4, heads, dim, dim, device="cuda", dtype=torch.bfloat16) / dim**0.5
(R @ R).sum().item()
gc.collect()
start = time.perf_counter()
(h, c), _ = rnnc.scan(rnnc.cells.lstm, wx, R, variant=variant)
torch.cuda.synchronize()
forward = time.perf_counter() - start
h.backward(torch.ones_like(h))
torch.cuda.synchronize()
print(forward, time.perf_counter() - start)
assert wx.grad.isfinite().all()
"""


# Heads of the size that each kind of plan is for.
SIZES = {"cluster": (3, 256), "grid": (1, 768)}


def first_result(cache, variant):
    """Seconds from the call to the result, in a process of its own."""
    return first_results(cache, variant, *SIZES.get(variant, (12, 64)))[0]


def first_results(cache, variant, heads, dim):
    """The same, and until the gradients are there."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, variant, str(heads), str(dim)],
        env={**os.environ, "RNNC_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    forward, both = map(float, done.stdout.split()[-2:])
    return forward, both


def test_first_result(variant, tmp_path, needs_plan):
    needs_plan(rnnc.cells.lstm, *SIZES.get(variant, (12, 64)), 16, torch.bfloat16, variant)
    cold = first_result(tmp_path, variant)
    # A unit for each direction, unless both have the same kernels, as beside the matrix library.
    shape = Shape(*SIZES.get(variant, (12, 64)), 16)
    plan = plan_for(rnnc.cells.lstm, shape, device_limits(0), variant)
    units = {direction.as_compiled() for direction in (plan.forward, plan.backward)}
    assert len(list(tmp_path.glob("lstm-*.cubin"))) == len(units)
    # The best of some: others may share the machine.
    cached = min(first_result(tmp_path, variant) for _ in range(3))
    assert cold < 2, f"compiled: {cold:.2f} s"
    assert cached < 0.1, f"from the cache: {cached:.3f} s"


def test_the_largest_head_s_first_results(tmp_path):
    """R fills the chip, and its kernels take the compiler longest."""
    forward, both = first_results(tmp_path, "auto", 1, 2048)
    assert forward < 2, f"forward: {forward:.2f} s"
    assert both < 4, f"forward and backward: {both:.2f} s"
