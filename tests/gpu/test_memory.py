"""The memory of a training step: gradients of gates reuse the memory of saved values."""

from __future__ import annotations

import gc

import rnnc
import torch

STEPS, BATCH, UNITS = 256, 32, 768
HEADS = {"block": 12, "cluster": 3, "grid": 1, "alternating": 12}


def inputs_of(variant):
    heads, cell = HEADS[variant], rnnc.cells.lstm
    dim = UNITS // heads
    wx = torch.randn(STEPS, BATCH, heads, dim, 4, device="cuda", dtype=torch.bfloat16)
    R = torch.randn(4, heads, dim, dim, device="cuda", dtype=torch.bfloat16) / dim**0.5
    wx = wx.transpose(0, 1).requires_grad_()
    return cell, wx, R.requires_grad_()


def peak(step, *args, **options):
    """The memory that a call needs at most, in states at all steps.

    The largest of three: autograd's thread may free a call's tensors after the call has returned,
    on a busy machine even within the next one, which hides some of that one's peak.
    """
    step(*args, **options)  # what is made on first use, is made
    found = []
    for _ in range(3):
        gc.collect()  # or what earlier tests left is freed meanwhile, and hides some of the peak
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(*args, **options)
        found.append(torch.cuda.max_memory_allocated() - before)
    return max(found) / (STEPS * BATCH * UNITS * 2)


def test_a_training_step_holds_the_gates_once(variant, needs_plan):
    cell, wx, R = inputs_of(variant)
    needs_plan(cell, HEADS[variant], UNITS // HEADS[variant], BATCH, torch.bfloat16, variant)
    seed = torch.ones_like(wx[..., 0])

    def step(**options):
        (h, _), _ = rnnc.scan(cell, wx, R, variant=variant)
        return torch.autograd.grad(h, (wx, R), seed, **options)

    once, twice = peak(step), peak(step, retain_graph=True)
    assert twice - once > 3  # four gates; what is used up meanwhile may fill a part
    # Two states and four gates; through its exchange buffer a grid's blocks give each other the
    # gradients of four gates.
    assert once < (10.5 if variant == "grid" else 6.5), (once, twice)


def test_lengths_and_resets_take_one_number_more(variant, needs_plan):
    cell, wx, R = inputs_of(variant)
    needs_plan(cell, HEADS[variant], UNITS // HEADS[variant], BATCH, torch.bfloat16, variant)
    seed = torch.ones_like(wx[..., 0])

    def step(**masks):
        (h, _), _ = rnnc.scan(cell, wx, R, variant=variant, **masks)
        return torch.autograd.grad(h, (wx, R), seed)

    reset = torch.rand(BATCH, STEPS, device="cuda") < 0.1
    lengths = torch.randint(1, STEPS + 1, (BATCH,), device="cuda")
    without = peak(step)
    for masks in ({"reset": reset}, {"lengths": lengths}, {"reset": reset, "lengths": lengths}):
        more = peak(step, **masks) - without
        assert more < 1.1, (list(masks), more)


def test_a_retained_graph_gives_the_same_gradients_again(variant, needs_plan, same_bits):
    cell, wx, R = inputs_of(variant)
    needs_plan(cell, HEADS[variant], UNITS // HEADS[variant], BATCH, torch.bfloat16, variant)
    (h, c), _ = rnnc.scan(cell, wx, R, variant=variant)
    seeds = [torch.randn_like(h), torch.randn_like(c)]
    first = torch.autograd.grad((h, c), (wx, R), seeds, retain_graph=True)
    second = torch.autograd.grad((h, c), (wx, R), seeds, retain_graph=True)
    last = torch.autograd.grad((h, c), (wx, R), seeds)
    for again in (second, last):
        same_bits(dict(zip("wR", again, strict=True)), dict(zip("wR", first, strict=True)))
