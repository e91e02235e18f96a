"""Values and gradients of scan plans, whose CUDA kernels run as C++ on the CPU."""

from __future__ import annotations

import random

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.scan import search
from rnnc.codegen.shape import DIRECTIONS

from ...walk_calls import FORMS, call_of, cells_without_r, gated, mixed, scanned, walk_then_scan

BOUNDS = {
    torch.float64: 1e-11,
    torch.float32: 3e-5,
    torch.bfloat16: 4e-2,
    torch.float16: 8e-3,
}
SINGLE, HALF = torch.float32, torch.bfloat16
slow = pytest.mark.slow  # several seconds each, most of it in the C++ compiler


@pytest.fixture
def check(inputs_for, emulated_blocks, poisoned, monkeypatch):
    """The kernels of a call of such sizes against torch's loop in float64."""
    # Small tiles: a call has several of each channel.
    monkeypatch.setattr(search, "_WARPS", 2)
    for direction in DIRECTIONS:
        monkeypatch.setitem(search._CHUNKS, direction, (4,))

    def checked(cell, sizes, dtype, *masks, kinds=("scan",), save="gates", **options):
        call = call_of(cell, inputs_for(cell, *sizes, dtype), *masks, **options)
        wanted = call.run("reference", double=True)
        variant = "scan" if kinds == ("scan",) else "auto"
        got = call.run("simulated", variant=variant, save=save)
        assert {plan.kind for plan in emulated_blocks[-2:]} == set(kinds)
        for name, value in wanted.items():
            if not value.to(dtype).isfinite().all():
                continue  # beyond the range of the dtype
            assert not got[name].isnan().any(), name
            error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
            assert error < BOUNDS[dtype], f"{name}: {error}"

    return checked


CELLS = [name for name in cells_without_r() if scanned(rnnc.cells.get(name), "forward")]
OTHERS = [name for name in cells_without_r() if name not in CELLS]


@pytest.mark.parametrize("name", ["hgrn", "lru", *(pytest.param(n, marks=slow) for n in CELLS)])
@pytest.mark.parametrize("dtype", [SINGLE, pytest.param(torch.float64, marks=slow)], ids=str)
def test_cells(name, dtype, check):
    """Several tiles, of which one is no whole one; a group of channels that is none either."""
    check(rnnc.cells.get(name), (3, 85, 2, 6), dtype, save=random.choice(("gates", "states")))


def test_two_byte_elements_of_an_odd_and_an_even_head(check):
    for name, dtype in (("hgrn", HALF), ("qrnn", torch.float16)):
        for steps in (1, 2, 19):
            check(rnnc.cells.get(name), (3, steps, 1, 5), dtype, reverse=steps == 19)
    check(rnnc.cells.qrnn, (5, 40, 2, 32), HALF)


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=slow)])
def test_lengths_and_resets(reverse, check):
    for form in FORMS:
        for dtype in (SINGLE, HALF):
            check(rnnc.cells.mingru, (11, 21, 1, 5), dtype, form, reverse=reverse)
    for one in ("lengths", "resets"):
        options = {"reverse": reverse, one: False}
        check(rnnc.cells.mingru, (4, 30, 2, 4), SINGLE, "init", **options)
    check(rnnc.cells.lru, (5, 37, 1, 7), SINGLE, "rows", reverse=reverse)


@pytest.mark.parametrize("form", ["init", pytest.param("stored", marks=slow)])
def test_warps_of_one_head_with_masks(form, check):
    """Their steps are copied to shared memory; a block has several tiles."""
    for cell, dtype in ((rnnc.cells.mingru, HALF), (rnnc.cells.lru, SINGLE), (gated, HALF)):
        check(cell, (3, 29, 2, 32), dtype, form, reverse=random.random() < 0.5)


@pytest.mark.parametrize("name", ["sru", *(pytest.param(n, marks=slow) for n in OTHERS)])
def test_backwards_of_other_cells(name, check, monkeypatch):
    """Their forward is a walk."""
    walk_then_scan(monkeypatch)
    check(rnnc.cells.get(name), (3, 45, 1, 6), SINGLE, kinds=("walk", "scan"))


def test_inputs_params_and_gates_of_all_kinds(check, monkeypatch):
    for dtype, form in ((SINGLE, None), (HALF, "rows")):
        check(gated, (5, 30, 2, 3), dtype, form)
    walk_then_scan(monkeypatch)
    check(mixed, (5, 18, 2, 3), SINGLE, "rows", kinds=("walk", "scan"))
