"""Values and gradients of cells with stages, whose grid kernels run as C++ on the CPU.

The emulated store of an exchanged word ends the process if the word has been written before. So
these tests also show that no region of the exchange buffer is written twice.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc import Gate, State, mean, tanh
from rnnc.codegen.cuda.grid import search
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.shape import PlanError
from rnnc.runtime.cuda import choose

from .test_mask_values import FORMS, SIZES, check, drawn_call
from .test_stage_values import CALLS, MASKS, STAGED, compare, slow

# Rows of R that end within a k-tile; deep has too many values for that in float32.
DIMS = {"gru": 72, "norm_lstm": 72, "deep": 80}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "name", ["gru", pytest.param("norm_lstm", marks=slow), pytest.param("deep", marks=slow)]
)
def test_modules(name, call, emulated_blocks, staged_cells, poisoned):
    compare(staged_cells.TWINS[name][0], CALLS[call], DIMS[name], variant="grid")
    assert {plan.kind for plan in emulated_blocks} == {"grid"}


@rnnc.cell
def centred(*, g: Gate, h: State):
    """Its first stage reads no gate, so it does not wait for the states."""
    return tanh(g + h - mean(h))


def test_a_first_stage_that_waits_for_nothing(emulated_blocks, poisoned):
    compare(centred, MASKS, 72, variant="grid")
    assert {plan.kind for plan in emulated_blocks} == {"grid"}


@pytest.fixture
def plans_with(monkeypatch):
    """A function that lets a direction have plans of such sizes alone, on a GPU of so many SMs."""

    def only(multiprocessors, direction=None, **sizes):
        was = search.grid_problem

        def problem(cell, shape, limits, of, *rest):
            m = was(cell, shape, limits, of, *rest)
            for name, value in sizes.items():
                if direction in (None, of):
                    m.require(m[name] == value, f"{name} that a test wants")
            return m

        limits = replace(limits_of("H200"), multiprocessors=multiprocessors)
        monkeypatch.setattr(search, "grid_problem", problem)
        monkeypatch.setattr(choose, "device_limits", lambda _: limits)

    return only


@pytest.mark.parametrize("name", ["norm_lstm", pytest.param("gru", marks=slow)])
def test_blocks_that_share_k(name, plans_with, emulated_blocks, staged_cells, poisoned):
    """The products of all stages go through the same two inboxes."""
    plans_with(71, "backward", cluster=2)
    compare(staged_cells.TWINS[name][0], MASKS, 64, variant="grid")
    assert {(p.direction, p.cluster) for p in emulated_blocks} == {("forward", 1), ("backward", 2)}


@slow
@pytest.mark.parametrize("rows", [(2, 1), (2, 2)])
@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_several_tiles_of_rows(
    name, rows, plans_with, emulated_blocks, staged_cells, poisoned, monkeypatch
):
    """Each phase takes a stage before any takes the next; threads of the GRU have two items."""
    groups = 3 if name == "gru" else 2
    monkeypatch.setattr(search, "_ROWS", (rows,))
    plans_with(72 + rows[1], warps=8, unit_groups=groups)
    compare(staged_cells.TWINS[name][0], MASKS, 64, variant="grid")
    assert {(p.rows, p.phases, p.units) for p in emulated_blocks} == {(16, rows[1], 8 * groups)}


@slow
@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_both_directions_layers_and_heads(name, emulated_blocks, staged_cells, poisoned):
    options = {"bidirectional": True, "heads": 2, "num_layers": 2, "save": "states"}
    compare(staged_cells.TWINS[name][0], MASKS, 128, variant="grid", **options)


@slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_every_form_of_reset_values(
    name, reverse, emulated_blocks, staged_cells, inputs_for, poisoned
):
    cell = staged_cells.TWINS[name][0]
    for form in FORMS:
        given = drawn_call(cell, SIZES["grid"], form, torch.float32, inputs_for)
        check(cell, given, "grid", reverse)


@slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", STAGED)
def test_cells_of_the_library(name, dtype, emulated_blocks, poisoned):
    if name == "layer_norm_slstm" and dtype == torch.bfloat16:
        pytest.skip("it divides by a state, which is as likely to be 0 as any other number here")
    try:
        compare(rnnc.cells.get(name), MASKS, 64, dtype, variant="grid")
    except PlanError:
        assert len(rnnc.cells.get(name).gates) > 7, "of few gates there is a plan"
    assert {plan.kind for plan in emulated_blocks} <= {"grid"}
