"""Walk plans on a GPU against the reference in float64: all cells without dense matrices."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.shape import SAVES

from ..walk_calls import FORMS, call_of, cells_without_r, mixed

DTYPES = ("bfloat16", "float16", "float32", "float64")
WALK = {"backend": "cuda", "variant": "walk"}


@pytest.fixture
def check(draw, errors_are_small):
    """The kernels of a call of such sizes against torch's loops."""

    def checked(cell, sizes, dtype, *masks, time_first=False, save="gates", **options):
        torch.manual_seed(sum(sizes))

        def drawn():
            inputs = draw(cell, sizes, getattr(torch, dtype), time_first=time_first)
            return call_of(cell, inputs, *masks, **options)

        def references(call):
            return call.run("reference"), call.run("reference", double=True)

        call = drawn()
        got, own = call.run(save=save, **WALK), references(call)
        try:
            errors_are_small(got, *own)
        except AssertionError:  # torch's own error was small by chance
            errors_are_small(got, *own, [references(drawn()) for _ in range(3)])

    return checked


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
def test_both_directions_in_one_launch(dtype):
    """A module's layer, with lengths, against the same module in float64."""
    options = {"heads": 2, "bidirectional": True, "num_layers": 2}
    on = {"device": "cuda", "dtype": getattr(torch, dtype)}
    torch.manual_seed(0)
    ours = rnnc.RNN(rnnc.cells.mingru, 12, 32, variant="walk", **options).to(**on)
    theirs = rnnc.RNN(rnnc.cells.mingru, 12, 32, backend="reference", **options)
    theirs.load_state_dict(ours.state_dict())
    theirs.double().cuda()
    x, lengths = torch.randn(40, 6, 12, **on), torch.tensor([40, 7, 0, 1, 39, 20])
    for given in (None, lengths):
        exact = x.double().requires_grad_()
        rough = x.clone().requires_grad_()
        wanted, got = theirs(exact, lengths=given)[0], ours(rough, lengths=given)[0]
        wanted.sum().backward()
        got.sum().backward()
        bound = 2e-2 if dtype == "bfloat16" else 1e-5
        for a, b in ((got, wanted), (rough.grad, exact.grad)):
            assert (a.double() - b).norm() < bound * b.norm()
