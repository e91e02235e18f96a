"""The profiler shows no copy or permutation of activations around the kernels."""

from __future__ import annotations

import math

import rnnc
import torch
from torch.profiler import ProfilerActivity, profile

# One state over time is larger than any weight, so that sizes tell activations from weights.
STEPS, BATCH, UNITS, FEATURES = 512, 16, 768, 16
ACTIVATION = STEPS * BATCH * UNITS
HEADS = {"block": 12, "cluster": 3, "grid": 1, "alternating": 12}
COPIES = {"aten::copy_", "aten::clone", "aten::contiguous", "aten::cat", "aten::stack"}


def large_copies(events):
    """Copies of a whole activation, with the shapes that they were called with."""
    found = []
    for event in events:
        shapes = [s for s in event.input_shapes or [] if s and all(isinstance(n, int) for n in s)]
        # `contiguous` of a packed tensor copies nothing; the copy that it makes is seen itself.
        if event.name in COPIES - {"aten::contiguous"} and any(
            math.prod(shape) >= ACTIVATION for shape in shapes
        ):
            found.append(f"{event.name} {event.input_shapes}")
    return found


def test_no_activation_is_copied(variant, needs_plan):
    cell, heads = rnnc.cells.lstm, HEADS[variant]
    needs_plan(cell, heads, UNITS // heads, BATCH, torch.bfloat16, variant)
    options = {"device": "cuda", "dtype": torch.bfloat16, "variant": variant}
    rnn = rnnc.RNN(cell, FEATURES, UNITS, heads=heads, **options)
    assert max(p.numel() for p in rnn.parameters()) < ACTIVATION
    x = torch.randn(STEPS, BATCH, FEATURES, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    d_y = torch.randn(STEPS, BATCH, UNITS, device="cuda", dtype=torch.bfloat16)
    rnn(x)[0].backward(d_y)  # what is made on first use, is made
    torch.cuda.synchronize()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, record_shapes=True) as seen:
        y, _ = rnn(x)
        y.backward(d_y)
        torch.cuda.synchronize()
    events = seen.events()
    assert not large_copies(events)
    kernels = {e.name for e in events if e.device_type == torch.autograd.DeviceType.CUDA}
    assert any("rnnc" in kernel for kernel in kernels), kernels
    assert not [kernel for kernel in kernels if "CatArray" in kernel or "transpose" in kernel]


def test_the_profiler_would_see_a_copy():
    t = torch.randn(STEPS, BATCH, UNITS, device="cuda")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        t.transpose(0, 1).contiguous()
    assert large_copies(seen.events())
