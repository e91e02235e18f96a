"""Grid plans of cells with stages: what blocks exchange within a step, and what is refused."""

from __future__ import annotations

import math

import pytest
import rnnc
from rnnc.codegen.cuda.grid.exchange import exchanges
from rnnc.codegen.cuda.grid.largest import largest_grid_head
from rnnc.codegen.cuda.grid.plan import GridPlan
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.mma import K_TILE_BYTES
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.cuda.stage_tables import stage_tables
from rnnc.codegen.derive import derive
from rnnc.codegen.shape import DIRECTIONS, PlanError, Shape

H200 = limits_of("H200")
NAMES = ["gru_reset_first", "lem", "joint_norm_lstm", "block_gru", "mgu3", "rhn"]


def tables_of(name, direction):
    return stage_tables(derive(rnnc.cells.get(name), early_sums=GridPlan.early_sums), direction)


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        ("gru_reset_first", (2, 2), (2, 2)),
        ("joint_norm_lstm", (3, 1), (2, 1)),
        ("mgu3", (1, 1), (1, 1)),  # its gate multiplies what depends on no other unit
        ("block_gru", (3, 2), (3, 2)),
        ("rhn", (3, 3), (3, 3)),
    ],
)
def test_how_often_blocks_wait_in_a_step(name, forward, backward):
    assert exchanges(tables_of(name, "forward")) == forward
    assert exchanges(tables_of(name, "backward")) == backward


def test_numbers_of_states_are_on_their_way_along_with_the_states():
    @rnnc.cell
    def centred(*, g: rnnc.Gate, h: rnnc.State):
        return rnnc.tanh(g + h - rnnc.mean(h))

    tables = stage_tables(derive(centred), "forward")
    assert not tables.first_stage_waits
    assert exchanges(tables) == (1, 1)
    assert exchanges(stage_tables(derive(centred), "backward")) == (2, 1)


def test_a_cell_without_stages_waits_once():
    assert exchanges(tables_of("lstm", "forward")) == (1, 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_plans_stay_within_every_limit_and_hold_all_of_r(name, dtype):
    # Counted again from the meaning of the fields, not from the constraints.
    cell, shape = rnnc.cells.get(name), Shape(1, 384, 16, dtype=dtype)
    for plan in plans_of_kind("grid", cell, shape, H200):
        for kernel in plan.kernels.values():
            assert kernel.blocks * kernel.groups <= H200.resident(kernel.cluster)
            assert kernel.blocks * kernel.units >= shape.head_dim
            assert kernel.matrix_registers < kernel.registers <= H200.registers_per_thread
            assert kernel.shared <= H200.shared_per_block
            tiles = kernel.blocks * kernel.warps * kernel.tiles * kernel.k_tiles
            held = tiles * 16 * K_TILE_BYTES
            assert held >= len(cell.dense_pairs) * shape.head_dim**2 * shape.element_bytes
            assert not kernel.streams


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_the_buffer_has_room_for_all_words_of_a_step(name, direction):
    # Of a batch row: the factors of all matrices, and the words of all parts of all statistics.
    tables, shape = tables_of(name, direction), Shape(1, 768, 16)
    plan = getattr(plan_for(rnnc.cells.get(name), shape, H200, "grid"), direction)
    factors = len(tables.sources if direction == "forward" else tables.pairs)
    parts = math.ceil(shape.head_dim / min(plan.units & -plan.units, 32))
    vectors = 0
    for stage in {s.stage for s in tables.statistics}:
        kinds = [s.kind for s in tables.statistics if s.stage == stage]
        vectors += math.ceil(sum(1 if kind in ("mean", "total") else 2 for kind in kinds) / 4)
    needed = 2 * shape.head_dim * factors + 16 * parts * vectors
    assert needed <= plan.exchange_k_tiles * K_TILE_BYTES < needed + K_TILE_BYTES
    assert plan.buffer_bytes(16, 1).per_step == 16 * K_TILE_BYTES * plan.exchange_k_tiles


def test_no_part_of_a_cell_with_stages_is_streamed():
    assert plan_for(rnnc.cells.gru, Shape(1, 2560, 16), H200, "grid").forward.streams
    largest = largest_grid_head(rnnc.cells.gru_reset_first, "bfloat16", H200, 1)
    with pytest.raises(PlanError, match=f"head_dim={largest}"):
        plan_for(rnnc.cells.gru_reset_first, Shape(1, 2560, 16), H200, "grid")


@pytest.mark.parametrize(
    ("one_stage", "staged"),
    [
        ("gru", "gru_reset_first"),
        ("lstm", "joint_norm_lstm"),
        ("lstm", "lem"),
        ("gru", "dreamer_gru"),
    ],
)
def test_a_head_may_be_nearly_as_large_as_without_stages(one_stage, staged):
    without, largest = (
        largest_grid_head(rnnc.cells.get(name), "bfloat16", H200, 1) for name in (one_stage, staged)
    )
    assert largest >= 0.75 * without


def test_a_cell_without_matrices_is_refused():
    @rnnc.cell
    def no_matrix(g: rnnc.Gate = rnnc.gate(recurrent="diagonal"), *, h: rnnc.State):
        return rnnc.layer_norm(rnnc.tanh(g))

    with pytest.raises(PlanError, match="no dense recurrent matrix"):
        plan_for(no_matrix, Shape(1, 256, 16), H200, "grid")
