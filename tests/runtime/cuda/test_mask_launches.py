"""The kernels of templates/cuda/masks.cu, compiled as C++, against operators of torch."""

from __future__ import annotations

import ctypes
import random
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.codegen.render import cuda_unit
from rnnc.runtime.call.masks import (
    RESTART,
    MadeMasks,
    Masks,
    masks_of,
    read_states,
    with_reset_values,
)
from rnnc.runtime.call.ragged import Ragged
from rnnc.runtime.cuda.products import masks, rows
from rnnc.runtime.targets.by_torch import Packing

KERNELS = ("order_rows", "make_masks", "select_rows", "move_rows", "read_states")
EMULATED = Path(__file__).parents[2] / "emulated" / "lanes.h"
RUN = """
extern "C" void run_{0}(unsigned x, unsigned y, const void* given) {{
  emulation::launch(rnnc_{0}, given, {{x, y, 1}}, rnnc::kThreads);
}}
"""
ARGUMENTS = ("Order", "Make", "Select", "Move", "Read")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    unit, folder = cuda_unit("masks"), tmp_path_factory.mktemp("masks")
    for name, text in unit.headers:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    runs = [RUN.format(k, a + "Arguments") for k, a in zip(KERNELS, ARGUMENTS, strict=True)]
    (folder / "masks.cpp").write_text(f'#include "{EMULATED}"\n{unit.code}\n{"".join(runs)}')
    command = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-w", "-I", str(folder)]
    command += [str(folder / "masks.cpp"), "-o", str(folder / "masks.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "masks.so"))


@pytest.fixture
def launches(library, monkeypatch):
    """Kernels on tensors of the CPU, which say that they are on a GPU."""

    def kernel(name, _):
        run = getattr(library, name.replace("rnnc", "run"))
        return lambda grid, given: run(*map(ctypes.c_uint, grid[:2]), ctypes.byref(given))

    for room in (masks, rows):
        monkeypatch.setattr(room, "mask_kernel", kernel)
        monkeypatch.setattr(room, "on_device", lambda _: nullcontext())
    limits = SimpleNamespace(multiprocessors=1)
    monkeypatch.setattr(masks, "device_limits", lambda _: limits)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)


def drawn(batch, steps, both):
    """Lengths of which some are out of range, and resets."""
    lengths = torch.randint(-1, steps + 3, (batch,)) if both != "reset" else None
    reset = torch.rand(batch, steps) < 0.3 if both != "lengths" else None
    return lengths, reset


def expected_order(lengths, count):
    """The longest rows first, those of one length as they lie; and the place of each row."""
    ends = lengths.clamp(0, count).tolist()
    rows_at = sorted(range(len(ends)), key=lambda row: (-ends[row], row))
    places = [rows_at.index(row) for row in range(len(ends))]
    return torch.tensor([rows_at, places], dtype=torch.int32)


def expected_restarts(steps, rows_at=None):
    """A bit per place and step, between zeros."""
    count, batch = steps.shape
    found = torch.zeros(-(-batch // 8), -(-count // 4) * 4 + 8, dtype=torch.uint8)
    for place, row in enumerate(range(batch) if rows_at is None else rows_at.tolist()):
        bits = (steps[:, row] == RESTART).to(torch.uint8) << place % 8
        found[place // 8, 4 : 4 + count] |= bits
    return found


def test_restarts_by_operators_of_torch():
    steps = torch.randint(0, 4, (7, 19), dtype=torch.uint8)
    assert torch.equal(masks.restarts_of(steps, None), expected_restarts(steps))
    order = masks.order_of(torch.randint(0, 8, (19,)), 7)
    assert torch.equal(masks.restarts_of(steps, order), expected_restarts(steps, order[0]))


@pytest.mark.parametrize("batch", [1, 5, 64, 131])
def test_rows_by_their_lengths(batch, launches, monkeypatch):
    """By the kernel, and by operators of torch, which take rows that are too many for it."""
    for lengths in (
        torch.randint(-1, 9, (batch,)),
        torch.randint(0, 2**40, (batch,)),
        torch.full((batch,), 7),
    ):
        wanted = expected_order(lengths, 7)
        assert torch.equal(masks.order_of(lengths, 7), wanted)
        with monkeypatch.context() as patch:
            patch.setattr(masks, "_MOST_COMPARED", 0)
            patch.setattr(masks, "mask_kernel", None)
            assert torch.equal(masks.order_of(lengths, 7), wanted)
    assert torch.equal(wanted, torch.arange(batch, dtype=torch.int32).expand(2, batch))


def test_reset_values_lie_where_kernels_can_copy_them():
    """Kernels copy rows of a head by the widest word that divides them."""
    memory = torch.randn(1 + 2 * 3 * 4 * 8)
    learned, stored = memory[1:33].view(4, 8), memory[1:].view(2, 3, 4, 8)
    assert stored.data_ptr() % 16
    got = masks.without_gaps([learned, stored, stored.contiguous()[:, 1:], stored.mT.mT])
    assert got[0] is learned
    for values, wanted in zip(got[1:], (stored, stored[:, 1:], stored), strict=True):
        assert torch.equal(values, wanted)
        assert not values.data_ptr() % 16
        assert values.stride()[-2:] == (8, 1)
    assert masks.without_gaps([got[1]])[0] is got[1]


@pytest.mark.parametrize("given", ["lengths", "reset", "both"])
@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (5, 16), (3, 33), (16, 21), (130, 40)])
def test_masks(batch, steps, given, launches):
    lengths, reset = drawn(batch, steps, given)
    ragged = Ragged(lengths, None if reset is None else reset.t(), None)
    made = rows.made_masks(ragged, (batch, steps), torch.device("cpu"), (False, True))
    for direction, reverse in enumerate((False, True)):
        wanted = masks_of(lengths, ragged.reset, (batch, steps), torch.device("cpu"), reverse)
        assert torch.equal(made.steps[direction], wanted.steps)
        order = None if lengths is None else expected_order(lengths, steps)
        restarts = expected_restarts(wanted.steps, None if order is None else order[0])
        assert torch.equal(made.restarts[direction], restarts)
        assert torch.equal(masks.restarts_of(wanted.steps, order), restarts)
        assert (made.order is None) == (order is None)
        if lengths is not None:
            assert torch.equal(made.longest, wanted.longest)
            assert torch.equal(made.order, order)


def test_packed_rows_lie_in_order(launches):
    lengths = torch.tensor([9, 4, 4, 1])
    ragged = Ragged(lengths, None, None, torch.arange(10))
    made = rows.made_masks(ragged, (4, 9), torch.device("cpu"), (False,))
    assert made.order is None
    assert torch.equal(made.restarts[0], expected_restarts(made.steps[0]))
    assert torch.equal(made.longest, lengths.int())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", [(), (4,), (4, 7)], ids=str)
@pytest.mark.parametrize("units", [3, 8, 24])
def test_states_that_products_read(units, form, reverse, launches):
    cell, dtype = rnnc.cells.gru, random.choice((torch.float64, torch.float16))
    lengths, reset = drawn(4, 7, "both")
    values = [torch.randn(*form, 2, units).to(dtype)]
    found = masks_of(lengths, reset.t(), (4, 7), torch.device("cpu"), reverse)
    found = with_reset_values(found, values, reverse)
    states = [torch.randn(7, 4, 2, units).to(dtype)]
    first = [torch.randn(4, 2, units).to(dtype)]
    given = cell, found, states, first
    (got,), (got_first,) = masks.states_read(*given, masks.without_gaps(found.reset_to), reverse)
    (wanted,), (wanted_first,) = read_states(*given, reverse)
    read = slice(1, None) if reverse else slice(0, -1)
    assert torch.equal(got[read], wanted[read])
    assert torch.equal(got_first, wanted_first)


@pytest.mark.parametrize("form", [(), (4,), (4, 7)], ids=str)
@pytest.mark.parametrize("units", [1, 3, 8, 24])
def test_states_that_products_of_both_directions_read(units, form, launches):
    """The units of the direction that runs backwards lie behind the others."""
    cell, dtype = rnnc.cells.gru, random.choice((torch.float64, torch.float16))
    lengths, reset = drawn(4, 7, "both")
    values = [torch.randn(*form, 2, units).to(dtype)]
    each = [
        masks_of(lengths, reset.t(), (4, 7), torch.device("cpu"), reverse)
        for reverse in (False, True)
    ]
    steps = torch.stack([masks.steps for masks in each])
    both = with_reset_values(Masks(steps, each[0].longest, None), values, "half")
    states = [torch.randn(7, 4, 2, units).to(dtype)]
    first = [torch.randn(4, 2, units).to(dtype)]
    given = cell, both, states, first
    (got,), (got_first,) = masks.states_read(*given, both.reset_to, "half")
    for number, (own, read) in enumerate(zip(each, (slice(0, -1), slice(1, None)), strict=True)):
        head, reverse = slice(number, number + 1), bool(number)
        own = with_reset_values(own, [v[..., head, :] for v in values], reverse)
        parts = [states[0][:, :, head]], [first[0][:, head]]
        (wanted,), (wanted_first,) = read_states(cell, own, *parts, reverse)
        assert torch.equal(got[read, :, head], wanted[read])
        assert torch.equal(got_first[:, head], wanted_first)
    halves = read_states(*given, "half")
    assert torch.equal(halves[0][0][1:-1], got[1:-1])
    assert torch.equal(halves[1][0], got_first)
    restarts, longest, order, *_ = masks.mask_fields(both, values)
    assert longest is both.longest
    assert torch.equal(order, expected_order(lengths, 7))
    each = [expected_restarts(own.steps, order[0]) for own in each]
    assert torch.equal(restarts, torch.stack(each))


@pytest.mark.parametrize("features", [1, 6, 16, 40])
def test_rows_that_run(features, launches):
    lengths, _ = drawn(5, 9, "lengths")
    x = torch.full((5, 9, features), float("nan"), dtype=torch.float16)
    inside = torch.arange(9)[None] < lengths[:, None]
    x[inside] = 1
    steps = masks_of(lengths, None, (5, 9), torch.device("cpu"), False).steps
    for own in (x.transpose(0, 1), x.transpose(0, 1).contiguous()):
        made = MadeMasks(steps[None], None, None)
        got = rows.rows_that_run(own, Ragged(lengths, None, None), made)
        assert torch.equal(got[..., 0], inside.t().half())


@pytest.mark.parametrize("width", [1, 12, 64])
def test_packed_rows(width, launches):
    sizes = torch.tensor([5, 5, 3, 1, 1])
    starts = torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))
    given = starts, (5, 5), int(starts[-1])
    ours, torchs = rows.CudaPacking(*given), Packing(*given)
    rows_of = torch.randn(15, 2, width).half()
    inside = torch.arange(5)[None] < sizes[:, None]
    padded = ours.pad(rows_of)
    assert torch.equal(padded[inside], torchs.pad(rows_of)[inside])
    parts = [padded, torch.randn(5, 5, 3).half()]
    assert torch.equal(ours.pack(parts), torchs.pack(parts))
    assert torch.equal(ours.pack(parts[:1]), rows_of.flatten(1))
