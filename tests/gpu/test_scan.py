"""Scan plans on a GPU against the reference in float64: all cells that a scan computes."""

from __future__ import annotations

import random
from itertools import cycle

import pytest
import rnnc
import torch
from rnnc.codegen.shape import SAVES

from ..walk_calls import (
    FORMS,
    PARTS,
    call_of,
    cells_without_r,
    gated,
    highest,
    mixed,
    over_maxima,
    scan_in_parts,
    scanned,
    walk_then_scan,
)

DTYPES = ("bfloat16", "float16", "float32", "float64")
SCAN = {"backend": "cuda", "variant": "scan"}
BOTH = [n for n in cells_without_r() if scanned(rnnc.cells.get(n), "forward")]
BACKWARD = [n for n in cells_without_r() if n not in BOTH]


@pytest.fixture
def check(check_call, monkeypatch):
    """The kernels of a call of such sizes against torch's loops; each call has other parts."""
    parts = cycle(random.sample(PARTS, len(PARTS)))

    def checked(*given, **options):
        scan_in_parts(monkeypatch, next(parts))
        check_call(call_of, "scan", *given, **options)

    return checked


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BOTH)
def test_cells(name, dtype, check):
    """Odd and even heads, a single step, and tiles of which many wait for one another."""
    cell, save = rnnc.cells.get(name), SAVES[len(name) % 2]
    for number, sizes in enumerate([(3, 260, 3, 37), (1, 1300, 1, 64), (2, 1, 1, 5)]):
        check(cell, sizes, dtype, save=save, time_first=number == 1, reverse=number == 2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", BACKWARD)
def test_backwards_of_other_cells(name, dtype, check_call, monkeypatch):
    """Their forward is a walk."""
    walk_then_scan(monkeypatch)
    check_call(call_of, "auto", rnnc.cells.get(name), (3, 300, 2, 21), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_and_resets(form, reverse, dtype, check):
    """Padding holds NaN."""
    check(rnnc.cells.mingru, (11, 300, 2, 37), dtype, form, reverse=reverse)
    check(rnnc.cells.lru, (7, 300, 1, 64), dtype, form, reverse=reverse)
    for one in ("lengths", "resets"):
        check(rnnc.cells.mingru, (5, 200, 1, 37), dtype, form, reverse=reverse, **{one: False})
        check(rnnc.cells.mingru, (5, 500, 1, 32), dtype, form, reverse=reverse, **{one: False})


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_params_and_gates_of_all_kinds(dtype, check, check_call, monkeypatch):
    check(gated, (5, 270, 2, 33), dtype)
    check(gated, (5, 270, 2, 32), dtype, "rows", reverse=True)
    walk_then_scan(monkeypatch)
    check_call(call_of, "auto", mixed, (5, 270, 2, 33), dtype, "rows")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cell", [highest, over_maxima], ids=lambda cell: cell.name)
def test_maxima(cell, dtype, check):
    check(cell, (5, 270, 2, 33), dtype)
    check(cell, (5, 270, 2, 32), dtype, "rows", reverse=True)
    check(cell, (1, 1300, 1, 64), dtype, "stored")


@pytest.mark.parametrize("name", ["hgrn", "lru", "slstm_without_r"])
@pytest.mark.parametrize("form", [None, "rows"])
@pytest.mark.parametrize("parts", PARTS)
def test_many_tiles_give_what_a_walk_gives(parts, name, form, draw, monkeypatch):
    """A loop of torch over as many steps takes minutes."""
    scan_in_parts(monkeypatch, parts)
    cell = rnnc.cells.get(name)
    call = call_of(cell, draw(cell, (2, 30_000, 1, 96), torch.float64), form)
    wanted = call.run(backend="cuda", variant="walk")
    for value, exact in zip(call.run(**SCAN).values(), wanted.values(), strict=True):
        assert (value - exact).norm() <= 1e-11 * exact.norm()


@pytest.mark.parametrize("parts", PARTS)
def test_the_same_inputs_give_the_same_bits(parts, draw, same_bits, monkeypatch):
    """Where a tile begins differs from call to call."""
    scan_in_parts(monkeypatch, parts)
    inputs = draw(rnnc.cells.hgrn, (1, 40_000, 1, 64), torch.float32)
    call = call_of(rnnc.cells.hgrn, inputs, "rows")
    first = call.run(**SCAN)
    for _ in range(10):
        same_bits(call.run(**SCAN), first)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_both_directions_in_one_launch(dtype, parts, both_directions, monkeypatch):
    scan_in_parts(monkeypatch, parts)
    both_directions("scan", dtype)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("units", [5, 6, 40])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_layers_of_a_module_whose_heads_end_within_a_warp(dtype, units, parts, monkeypatch):
    """Their wx takes what is saved, and lanes behind the last channel read it too."""
    scan_in_parts(monkeypatch, parts)
    torch.manual_seed(units)
    sizes = {"num_layers": 2, "bidirectional": True, "heads": 2}
    on = {"device": "cuda", "dtype": getattr(torch, dtype)}
    ours = rnnc.RNN(rnnc.cells.mingru, 5, 2 * units, variant="scan", **sizes).to(**on)
    loop = rnnc.RNN(rnnc.cells.mingru, 5, 2 * units, backend="reference", **sizes).to("cuda")
    loop.double().load_state_dict(ours.state_dict())
    x, seed = torch.randn(150, 7, 5, **on), torch.randn(150, 7, 4 * units, **on)
    masks = {"lengths": torch.randint(1, 151, (7,)), "reset": torch.rand(150, 7).cuda() < 0.1}
    bound = {"bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    for given in ({}, masks):
        found = []
        for module in (ours, loop):
            leaf = x.detach().to(next(module.parameters()).dtype).requires_grad_()
            y, last = module(leaf, **given)
            module.zero_grad()
            y.backward(seed.to(y.dtype))
            gradients = {name: p.grad for name, p in module.named_parameters()}
            found.append({"y": y, "last": last[0], "x": leaf.grad} | gradients)
        for name, exact in found[1].items():
            error = (found[0][name].double() - exact).norm() / exact.norm()
            assert error < bound, f"{name}: {error:.1e}"


@pytest.mark.parametrize("form", ["init", "stored"])
@pytest.mark.parametrize("sizes", [(3, 1500, 1, 64), (40, 200, 2, 96)])
def test_a_cell_whose_kernel_has_fewer_warps_with_masks(form, sizes, check):
    """Otherwise its registers would spill."""
    check(rnnc.cells.qrnn, sizes, "float32", form)
