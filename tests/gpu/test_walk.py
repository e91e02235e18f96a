"""Walk plans on a GPU against the reference in float64: all cells without dense matrices."""

from __future__ import annotations

from functools import partial

import pytest
import rnnc
import torch
from rnnc.codegen.shape import SAVES

from ..walk_calls import FORMS, call_of, cells_without_r, mixed

DTYPES = ("bfloat16", "float16", "float32", "float64")
WALK = {"backend": "cuda", "variant": "walk"}


@pytest.fixture
def check(check_call):
    """The kernels of a call of such sizes against torch's loops."""
    return partial(check_call, call_of, "walk")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", cells_without_r())
def test_cells(name, dtype, check):
    """Odd and even heads, a single step, and more steps than are on their way at once."""
    cell, save = rnnc.cells.get(name), SAVES[len(name) % 2]
    for number, sizes in enumerate([(3, 150, 3, 37), (17, 63, 2, 64), (2, 1, 1, 5)]):
        check(cell, sizes, dtype, save=save, time_first=number == 1, reverse=number == 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_and_resets(form, reverse, dtype, check):
    """Padding holds NaN."""
    for cell, dim in ((rnnc.cells.mingru, 37), (rnnc.cells.sru, 64)):
        check(cell, (11, 90, 2, dim), dtype, form, reverse=reverse)
        for one in ("lengths", "resets"):
            check(cell, (5, 33, 1, dim), dtype, form, reverse=reverse, **{one: False})


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_params_and_gates_of_all_kinds(dtype, check):
    check(mixed, (5, 70, 2, 33), dtype)
    check(mixed, (5, 70, 2, 32), dtype, "rows", reverse=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_of_several_units(dtype, check):
    """As many units as an SM has several warps of."""
    check(rnnc.cells.qrnn, (32, 40, 1, 1024), dtype)
    check(rnnc.cells.mingru, (64, 33, 2, 256), dtype, "stored", reverse=True)
    check(rnnc.cells.hgrn, (300, 20, 3, 34), dtype, "rows")


def test_the_same_inputs_give_the_same_bits(draw, same_bits):
    inputs = draw(rnnc.cells.qrnn, (8, 200, 2, 96), torch.bfloat16)
    call = call_of(rnnc.cells.qrnn, inputs, "rows")
    first = call.run(**WALK)
    for _ in range(3):
        same_bits(call.run(**WALK), first)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_both_directions_in_one_launch(dtype, both_directions):
    both_directions("walk", dtype)
