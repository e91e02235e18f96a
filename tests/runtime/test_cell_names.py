"""Public functions take a cell, or the name of one in `rnnc.cells`."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State

STARTS = torch.tensor([0, 2, 5], dtype=torch.int32)


def packed(cell):
    generator = torch.Generator().manual_seed(1)
    wx = torch.randn(5, 1, 4, 1, generator=generator)
    return rnnc.scan_packed(cell, wx, torch.ones(1, 1, 4, 4), cu_seqlens=STARTS)


def scanned(cell):
    generator = torch.Generator().manual_seed(1)
    return rnnc.scan(cell, torch.randn(2, 3, 1, 4, 1, generator=generator), torch.ones(1, 1, 4, 4))


def test_a_name_is_its_cell():
    assert rnnc.RNN("lstm", 3, 4).cell is rnnc.cells.lstm
    for call in (scanned, packed):
        for found, wanted in zip(call("elman")[0], call(rnnc.cells.elman)[0], strict=True):
            assert torch.equal(found, wanted)
    limits = rnnc.codegen.cuda.limits.limits_of("H200")
    shape = rnnc.Shape(heads=1, head_dim=64)
    assert rnnc.plan_for("gru", shape, limits) == rnnc.plan_for(rnnc.cells.gru, shape, limits)


def test_a_name_of_another_package(monkeypatch):
    point = EntryPoint("their_cell", "rnnc.cellspec.library.elman:elman", "rnnc.cells")
    monkeypatch.setattr(rnnc.cells, "_third_party", lambda: {"their_cell": point})
    assert rnnc.RNN("their_cell", 3, 4).cell == rnnc.cells.elman


def test_a_name_of_a_package_that_does_not_load(monkeypatch):
    point = EntryPoint("broken_cell", "no_such_package:cell", "rnnc.cells")
    monkeypatch.setattr(rnnc.cells, "_third_party", lambda: {"broken_cell": point})
    with pytest.raises(rnnc.TensorError, match=r"'no_such_package:cell', which raises Module"):
        rnnc.RNN("broken_cell", 3, 4)


def test_a_name_under_torch_compile():
    weights = torch.randn(2, 3, 1, 4, 1), torch.randn(1, 1, 4, 4)
    compiled = torch.compile(
        lambda wx, R: rnnc.scan("elman", wx, R), fullgraph=True, backend="eager"
    )
    assert torch.equal(compiled(*weights)[0][0], rnnc.scan("elman", *weights)[0][0])


@rnnc.cell
def their_noisy(g: Gate, h: State, *, keep: Input = rnnc.bernoulli(0.5)):
    return keep * h + (1 - keep) * rnnc.tanh(g)


@pytest.mark.parametrize("sample", [True, False])
def test_a_name_of_a_cell_that_draws_under_torch_compile(monkeypatch, sample):
    monkeypatch.setitem(sys.modules, "their_package", sys.modules[__name__])
    point = EntryPoint("their_noisy", "their_package:their_noisy", "rnnc.cells")
    monkeypatch.setattr(rnnc.cells, "_third_party", lambda: {"their_noisy": point})
    weights = torch.randn(2, 3, 1, 4, 1), torch.randn(1, 1, 4, 4)

    def call(wx, R):
        return rnnc.scan("their_noisy", wx, R, sample=sample)[0][0]

    compiled = torch.compile(call, fullgraph=True, backend="eager")
    torch.manual_seed(0)
    found = compiled(*weights)
    torch.manual_seed(0)
    assert torch.equal(found, call(*weights))


@pytest.mark.parametrize("call", [scanned, packed, lambda cell: rnnc.RNN(cell, 3, 4)])
def test_an_unknown_name_lists_the_nearest(call):
    with pytest.raises(rnnc.TensorError) as caught:
        call("lsmt")
    assert str(caught.value) == (
        "cell\n  found:  no cell of the name 'lsmt'\n"
        "  wanted: a cell, or a name of rnnc.cells.names()\n"
        "  write:  'lstm' or 'slstm' or a function decorated with @rnnc.cell"
    )


def test_an_unknown_name_for_a_plan():
    limits = rnnc.codegen.cuda.limits.limits_of("H200")
    with pytest.raises(rnnc.CellError, match="'gru'"):
        rnnc.plan_for("gruu", rnnc.Shape(heads=1, head_dim=64), limits)
    with pytest.raises(rnnc.CellError, match="found:  an int\n  wanted: a cell, or a name"):
        rnnc.plan_for(5, rnnc.Shape(heads=1, head_dim=64), limits)


def test_plans_want_a_shape_and_limits():
    limits, shape = rnnc.codegen.cuda.limits.limits_of("H200"), rnnc.Shape(heads=1, head_dim=64)
    with pytest.raises(rnnc.PlanError, match=r"shape\n  found:  a tuple\n  wanted: an rnnc.Shape"):
        rnnc.plan_for("gru", (1, 64), limits)
    with pytest.raises(rnnc.PlanError, match=r"limits\n  found:  a str\n  wanted: an rnnc.Limits"):
        rnnc.plan_for("gru", shape, "H200")


def test_a_name_is_a_string():
    with pytest.raises(rnnc.CellError, match="cells\n  found:  an int\n  wanted: the name of"):
        rnnc.cells.get(5)
