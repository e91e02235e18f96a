"""Both directions of a layer in one launch, with lengths and resets: kernels as C++ on the CPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.nn import packed
from torch import nn
from torch.nn.utils.rnn import pack_sequence

# B, T and D of each kind of plan: several tiles of rows, and blocks that share a head.
SIZES = {"block": (9, 37, 24), "cluster": (19, 35, 72), "grid": (19, 5, 72)}
slow = pytest.mark.slow  # half a minute each, most of it in the C++ compiler


def check(call, plans, kind, save="gates"):
    """The kernels against torch's loop in float64."""
    wanted = call.run("reference", double=True)
    got = call.run("simulated", variant=kind, save=save)
    assert {(plan.kind, plan.reverse, plan.masked) for plan in plans} == {(kind, "half", True)}
    bound = 3e-5 if call.x.dtype == torch.float32 else 4e-2
    for name, value in wanted.items():
        assert not got[name].isnan().any(), name
        error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
        assert error < bound, f"{name}: {error}"


def call_of(two_directions, kind, form, cell=rnnc.cells.lstm, **options):
    batch, steps, dim = SIZES[kind]
    return two_directions.RaggedCall(cell, (batch, steps, 5, 1, dim), form, **options)


def test_lengths_and_resets(two_directions, emulated_blocks, poisoned):
    check(call_of(two_directions, "block", "rows"), emulated_blocks, "block")


@slow
@pytest.mark.parametrize("form", ["init", "shared", "rows", "stored"])
@pytest.mark.parametrize("kind", SIZES)
def test_all_values_after_a_reset(kind, form, two_directions, emulated_blocks, poisoned):
    save = "states" if form in ("shared", "stored") else "gates"
    check(call_of(two_directions, kind, form), emulated_blocks, kind, save)


@slow
@pytest.mark.parametrize("kind", SIZES)
def test_lengths_alone_and_resets_alone(kind, two_directions, emulated_blocks, poisoned):
    check(call_of(two_directions, kind, None), emulated_blocks, kind)
    check(call_of(two_directions, kind, "rows", lengths=False), emulated_blocks, kind)


@slow
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", ["gru", "slstm", "clipped"])
def test_other_cells(name, kind, clipped, two_directions, emulated_blocks, poisoned):
    """Gates without input, four states, params, a nonlinear backward."""
    cell = clipped if name == "clipped" else rnnc.cells.get(name)
    check(call_of(two_directions, kind, "rows", cell), emulated_blocks, kind)


@slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", SIZES)
def test_half_precision(kind, dtype, two_directions, emulated_blocks, poisoned):
    for form in ("shared", "stored"):
        check(call_of(two_directions, kind, form, dtype=dtype), emulated_blocks, kind)


@slow
@pytest.mark.parametrize("form", [None, "rows", "stored"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_clusters_of_several_heads_and_tiles(
    dtype, form, two_directions, emulated_blocks, poisoned
):
    """Two heads of each direction; the third tile has a single row. Some tiles end early."""
    sizes = 17, 34, 5, 2, 40
    drawn, short = (
        two_directions.RaggedCall(rnnc.cells.lstm, sizes, form, dtype, layers=1) for _ in range(2)
    )
    check(drawn, emulated_blocks, "cluster")
    short.lengths[:] = torch.tensor([34, 31] + 6 * [3] + 8 * [1] + [33])
    past = torch.arange(34)[:, None, None] >= short.lengths[:, None]
    short.x = short.x.nan_to_num(1.0).masked_fill(past, float("nan"))
    short.seeds[0] = short.seeds[0].nan_to_num(1.0).masked_fill(past, float("nan"))
    short.values = short.values and [value.nan_to_num(1.0) for value in short.values]
    check(short, emulated_blocks, "cluster")


@slow
@pytest.mark.parametrize("kind", SIZES)
def test_packed_rows(kind, emulated_blocks, torch_twins, monkeypatch, poisoned):
    monkeypatch.setattr(packed, "run_torch", lambda *_: pytest.fail("torch's own forward ran"))
    _, steps, dim = SIZES[kind]
    theirs = nn.LSTM(5, dim, 2, bidirectional=True)
    ours = rnnc.nn.LSTM(5, dim, 2, bidirectional=True)
    ours.load_state_dict(theirs.state_dict())
    settings = ours._settings()
    choice = settings.choice._replace(variant=kind, precision="ieee")
    settings = settings._replace(backend="simulated", choice=choice)
    monkeypatch.setattr(ours, "_settings", lambda: settings)
    lengths = (steps, steps, steps - 1, steps - 2, 3, 2, 2, 1, 1)
    given = pack_sequence([torch.randn(n, 5) for n in lengths])
    got, wanted = torch_twins.named(ours, given), torch_twins.named(theirs, given)
    for name, value in wanted.items():
        torch.testing.assert_close(got[name], value, rtol=1e-3, atol=1e-4, msg=name)
    assert {(plan.reverse, plan.masked) for plan in emulated_blocks} == {("half", True)}
