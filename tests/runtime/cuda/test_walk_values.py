"""Values and gradients of walk plans, whose CUDA kernels run as C++ on the CPU."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.runtime.cuda import choose

from ...walk_calls import FORMS, call_of, cells_without_r, mixed

BOUNDS = {
    torch.float64: 1e-11,
    torch.float32: 3e-5,
    torch.bfloat16: 4e-2,
    torch.float16: 8e-3,
}
SINGLE, HALF = torch.float32, torch.bfloat16
slow = pytest.mark.slow  # several seconds each, most of it in the C++ compiler


@pytest.fixture
def check(inputs_for, emulated_blocks, poisoned):
    """The kernels of a call of such sizes against torch's loop in float64."""

    def checked(cell, sizes, dtype, *masks, save="gates", **options):
        call = call_of(cell, inputs_for(cell, *sizes, dtype), *masks, **options)
        wanted = call.run("reference", double=True)
        got = call.run("simulated", variant="walk", save=save)
        assert {plan.kind for plan in emulated_blocks} == {"walk"}
        for name, value in wanted.items():
            if not value.to(dtype).isfinite().all():
                continue  # beyond the range of the dtype
            assert not got[name].isnan().any(), name
            error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
            assert error < BOUNDS[dtype], f"{name}: {error}"

    return checked


@pytest.mark.parametrize(
    "name", ["hgrn", *(pytest.param(n, marks=slow) for n in cells_without_r())]
)
@pytest.mark.parametrize("dtype", [SINGLE, pytest.param(torch.float64, marks=slow)], ids=str)
def test_cells(name, dtype, check):
    """More steps than are on their way at once, and a rest that is no chunk."""
    check(rnnc.cells.get(name), (3, 85, 2, 6), dtype, save=random.choice(("gates", "states")))


@pytest.mark.parametrize("dim", [5, 8])
def test_two_byte_elements_of_an_odd_and_an_even_head(dim, check):
    """Words of shared memory have one unit, or parts of two; QRNN has three gates."""
    for name, dtype in (("hgrn", HALF), ("qrnn", torch.float16)):
        for steps in (1, 2, 19):
            check(rnnc.cells.get(name), (3, steps, 1, dim), dtype, reverse=steps == 19)


def test_warps_that_copy_their_units_together(check):
    """Heads of a multiple of 32 units; three gates are no power of two."""
    for steps in (1, 17, 85):
        check(rnnc.cells.hgrn, (2, steps, 2, 32), HALF, reverse=steps == 17)
        check(rnnc.cells.qrnn, (2, steps, 1, 64), torch.float16)
    for form in FORMS:
        check(rnnc.cells.mingru, (5, 21, 1, 32), SINGLE, form, reverse=form == "rows")
    check(mixed, (3, 20, 2, 32), HALF, "stored")


def test_threads_of_several_units(check, emulated_blocks, monkeypatch):
    """They are taken where an SM has many units: warps that are whole, and others."""
    limits = replace(limits_of("H200"), multiprocessors=1)
    monkeypatch.setattr(choose, "device_limits", lambda _: limits)
    check(rnnc.cells.qrnn, (2, 21, 1, 128), HALF, "stored")
    check(mixed, (4, 19, 1, 64), HALF, "rows", reverse=True)
    check(rnnc.cells.hgrn, (5, 40, 1, 42), HALF)
    check(rnnc.cells.mingru, (7, 20, 1, 34), SINGLE, "shared")
    sizes = {(plan.units, plan.whole_warps) for plan in emulated_blocks}
    assert sizes == {(4, True), (2, True), (2, False)}


@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_and_resets(reverse, check):
    for form in FORMS:
        for dtype in (SINGLE, HALF):
            check(rnnc.cells.mingru, (11, 21, 1, 5), dtype, form, reverse=reverse)
    for one in ("lengths", "resets"):
        options = {"reverse": reverse, one: False}
        check(rnnc.cells.mingru, (4, 9, 2, 4), SINGLE, "init", **options)


def test_inputs_params_and_gates_of_all_kinds(check):
    for dtype, form in ((SINGLE, None), (HALF, "rows")):
        check(mixed, (5, 18, 2, 3), dtype, form)
