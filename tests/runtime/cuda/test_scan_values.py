"""Values and gradients of scan plans, whose CUDA kernels run as C++ on the CPU."""

from __future__ import annotations

import random

import pytest
import rnnc
import torch

from ...linear_scans import small_tiles
from ...walk_calls import (
    FORMS,
    PARTS,
    call_of,
    cascaded,
    cells_without_r,
    clipped_between,
    gated,
    highest,
    highest_of_another,
    mixed,
    over_maxima,
    scan_in_parts,
    scanned,
    two_sources,
    walk_then_scan,
)

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
    small_tiles(monkeypatch)

    def checked(cell, sizes, dtype, *masks, parts, kinds=("scan",), save="gates", **options):
        scan_in_parts(monkeypatch, parts)
        if kinds != ("scan",):
            walk_then_scan(monkeypatch)
        call = call_of(cell, inputs_for(cell, *sizes, dtype), *masks, **options)
        wanted = call.run("reference", double=True)
        variant = "scan" if kinds == ("scan",) else "auto"
        got = call.run("simulated", variant=variant, save=save)
        ran = emulated_blocks[-2:]
        assert {plan.kind for plan in ran} == set(kinds)
        assert {plan.sequential for plan in ran if plan.kind == "scan"} == {parts > 0}
        for name, value in wanted.items():
            if not value.to(dtype).isfinite().all():
                continue  # beyond the range of the dtype
            assert not got[name].isnan().any(), name
            error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
            assert error < BOUNDS[dtype], f"{name}: {error}"

    return checked


CELLS = [name for name in cells_without_r() if scanned(rnnc.cells.get(name), "forward")]
OTHERS = [name for name in cells_without_r() if name not in CELLS]


def cases():
    quick = [("hgrn", SINGLE, 0), ("lru", SINGLE, 1), ("lru", SINGLE, 0), ("hgrn", HALF, 2)]
    yield from quick
    for name in CELLS:
        for dtype in (SINGLE, torch.float64):
            for parts in PARTS:
                if (name, dtype, parts) not in quick:
                    yield pytest.param(name, dtype, parts, marks=slow)


@pytest.mark.parametrize(("name", "dtype", "parts"), [*cases()])
def test_cells(name, dtype, parts, check):
    """Several tiles, of which one is no whole one; a group of channels that is none either."""
    save = random.choice(("gates", "states"))
    check(rnnc.cells.get(name), (3, 85, 2, 6), dtype, parts=parts, save=save)


def test_two_byte_elements_of_an_odd_and_an_even_head(check):
    for name, dtype, parts in (("hgrn", HALF, 0), ("qrnn", torch.float16, 1)):
        for steps in (1, 2, 19):
            size = (3, steps, 1, 5)
            check(rnnc.cells.get(name), size, dtype, parts=parts, reverse=steps == 19)
    for parts, dim in ((0, 32), (2, 48)):
        check(rnnc.cells.qrnn, (5, 40, 2, dim), HALF, parts=parts)


@pytest.mark.parametrize("parts", [0, 1, pytest.param(2, marks=slow)])
@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=slow)])
def test_lengths_and_resets(reverse, parts, check):
    for form in FORMS:
        for dtype in (SINGLE, HALF):
            size = (11, 21, 1, 5)
            check(rnnc.cells.mingru, size, dtype, form, parts=parts, reverse=reverse)
    for one in ("lengths", "resets"):
        options = {"reverse": reverse, one: False}
        check(rnnc.cells.mingru, (4, 30, 2, 4), SINGLE, "init", parts=parts, **options)
    check(rnnc.cells.lru, (5, 37, 1, 7), SINGLE, "rows", parts=parts, reverse=reverse)


@pytest.mark.parametrize("parts", [0, 2, pytest.param(1, marks=slow)])
@pytest.mark.parametrize("form", ["init", pytest.param("stored", marks=slow)])
def test_warps_of_one_head_with_masks(form, parts, check):
    """Their steps are copied to shared memory; a block has several tiles."""
    for cell, dtype in ((rnnc.cells.mingru, HALF), (rnnc.cells.lru, SINGLE), (gated, HALF)):
        reverse = random.random() < 0.5
        check(cell, (3, 29, 2, 32), dtype, form, parts=parts, reverse=reverse)


@pytest.mark.parametrize("name", ["sru", *(pytest.param(n, marks=slow) for n in OTHERS)])
def test_backwards_of_other_cells(name, check):
    """Their forward is a walk."""
    for parts in (1, 0):
        size = (3, 45, 1, 6)
        check(rnnc.cells.get(name), size, SINGLE, parts=parts, kinds=("walk", "scan"))


def test_inputs_params_and_gates_of_all_kinds(check):
    for dtype, form, parts in ((SINGLE, None, 1), (HALF, "rows", 0)):
        check(gated, (5, 30, 2, 3), dtype, form, parts=parts)
    check(mixed, (5, 18, 2, 3), SINGLE, "rows", parts=2, kinds=("walk", "scan"))


@pytest.mark.parametrize(("cell", "parts"), [(cascaded, 0), (cascaded, 2), (two_sources, 0)])
def test_parts_that_read_each_other(cell, parts, check):
    """A part reads the old value of another one, and weights join two states."""
    check(cell, (3, 29, 1, 5), SINGLE, "rows", parts=parts, reverse=parts > 0)


@pytest.mark.parametrize("parts", [0, 2])
@pytest.mark.parametrize("cell", [highest, over_maxima], ids=lambda cell: cell.name)
def test_maxima(cell, parts, check):
    """Alone, and below states whose coefficients read them; a state that overflows stays alone."""
    cases = [(SINGLE, None, 260, 5), (HALF, "rows", 29, 32), (torch.float64, "stored", 29, 3)]
    for dtype, form, steps, dim in cases:
        check(cell, (3, steps, 1, dim), dtype, form, parts=parts, reverse=dim == 3)


@pytest.mark.parametrize("name", ["slstm_without_r", "lru"])
def test_tiles_load_maps_ahead(name, check, monkeypatch):
    """There are more tiles before one than it loads ahead."""
    small_tiles(monkeypatch, warps=4)
    check(rnnc.cells.get(name), (2, 250, 1, 7), SINGLE, "rows", parts=0)


def test_a_maximum_of_another_state_is_refused(inputs_for, emulated_blocks, poisoned):
    call = call_of(highest_of_another, inputs_for(highest_of_another, 2, 9, 1, 5, SINGLE))
    with pytest.raises(rnnc.PlanError, match="the maximum m reads h, which is carried too"):
        call.run("simulated", variant="scan")


def test_a_clip_between_two_parts_is_no_map(inputs_for, emulated_blocks, poisoned, monkeypatch):
    """A scan of both would clip what a unit becomes; the walk clips the cotangents."""
    small_tiles(monkeypatch)
    scan_in_parts(monkeypatch, 0)
    call = call_of(clipped_between, inputs_for(clipped_between, 2, 29, 1, 5, SINGLE))
    with pytest.raises(rnnc.PlanError, match="clips a cotangent on its way from part to part"):
        call.run("simulated", variant="scan")
    got, wanted = call.run("simulated", variant="walk"), call.run("reference", double=True)
    for name, value in wanted.items():
        torch.testing.assert_close(got[name].double(), value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("parts", [0, 1])
def test_layers_of_a_module_in_both_directions(parts, emulated_blocks, poisoned, monkeypatch):
    """Their wx takes what the forward saves, and lanes behind the last channel read it too."""
    small_tiles(monkeypatch)
    scan_in_parts(monkeypatch, parts)
    sizes = {"num_layers": 2, "bidirectional": True, "heads": 2}
    ours = rnnc.RNN(rnnc.cells.mingru, 5, 6, variant="scan", backend="simulated", **sizes)
    loop = rnnc.RNN(rnnc.cells.mingru, 5, 6, backend="reference", **sizes).double()
    loop.load_state_dict(ours.state_dict())
    x, seed = torch.randn(19, 4, 5), torch.randn(19, 4, 12)
    masks = {"lengths": torch.tensor([19, 1, 17, 8]), "reset": torch.rand(19, 4) < 0.15}
    for given in ({}, masks):
        found = []
        for module in (ours, loop):
            leaf = x.detach().clone().to(next(module.parameters()).dtype).requires_grad_()
            y, last = module(leaf, **given)
            module.zero_grad()
            y.backward(seed.to(y.dtype))
            found.append([y, last[0], leaf.grad, *(p.grad for p in module.parameters())])
        for got, wanted in zip(*found, strict=True):
            torch.testing.assert_close(got.double(), wanted.double(), rtol=1e-4, atol=1e-4)
    assert {plan.kind for plan in emulated_blocks} == {"scan"}
