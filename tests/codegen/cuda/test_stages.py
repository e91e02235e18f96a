"""Plans and sources of cells with stages, and the kinds of plans that refuse them."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.block.search import block_tilings
from rnnc.codegen.cuda.cluster.search import cluster_kernels
from rnnc.codegen.cuda.cluster.staged import part_bytes
from rnnc.codegen.cuda.kinds import KINDS, best_tilings, kinds_for
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.cuda.source import cuda_source, kernel_source
from rnnc.codegen.cuda.stage_tables import stage_tables
from rnnc.codegen.derive import derive
from rnnc.codegen.request import PlanRequest
from rnnc.codegen.shape import DIRECTIONS, PlanError, Shape

H200, SHAPE = limits_of("H200"), Shape(12, 64, 16)
GRU, NORMED = rnnc.cells.gru_reset_first, rnnc.cells.joint_norm_lstm
REFUSING = [name for name, kind in kinds_for().items() if not kind.takes_stages]


def tables_of(name, direction):
    return stage_tables(derive(rnnc.cells.get(name)), direction)


def test_gates_that_multiply_one_value_share_a_source():
    for direction, stages in (("forward", (0, 1)), ("backward", (2, 1))):
        states, called = tables_of("multiplicative_lstm", direction).sources
        assert (states.stage, called.stage) == stages
        assert len(states.pairs) == 1
        assert sorted(called.pairs) == [(1, 1), (2, 2), (3, 3), (4, 4)]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gates_of_several_stages_have_a_source_each(direction):
    tables = tables_of("rhn", direction)
    assert [len(source.pairs) for source in tables.sources] == [2, 2, 2]
    assert sorted(source.stage for source in tables.sources[1:]) == [1, 2]
    assert sorted(matrix for _, matrix in tables.pairs) == list(range(6))
    assert tables.first_pairs == [0, 2, 4]


def test_a_gate_with_a_weight_per_unit_is_no_source(staged_cells):
    deep, _ = staged_cells.TWINS["deep"]
    tables = stage_tables(derive(deep), "forward")
    (weight,) = tables.weights
    assert weight.text.startswith("d += u_d *")
    assert weight.gate not in [gate for gate, _ in tables.pairs]


def test_every_gradient_has_a_stage():
    tables = tables_of("layer_norm_lstm", "backward")
    for names in (tables.layout.gradients.names, tables.layout.params.names):
        assert set(tables.stage_of(names)) <= set(range(len(tables.stages)))


def test_a_cell_without_stages_has_no_tables_and_no_headers_of_theirs():
    assert tables_of("lstm", "forward") is None
    source = rnnc.cells.lstm.cuda(head_dim=64)
    assert not [path for path, _ in source.headers if path.startswith("lib/stages/")]
    assert "RNNC_STAGES" not in source.code


@pytest.mark.parametrize("variant", REFUSING)
def test_other_kinds_refuse_by_name(variant):
    with pytest.raises(PlanError, match=f"and no reductions, for {variant} kernels") as error:
        plan_for(GRU, SHAPE, H200, variant)
    assert "`n(sigmoid(r)*h)`, a product with a value of the step" in str(error.value)
    # A walk and a scan take no cell with matrices.
    other = rnnc.cells.ema if variant in ("walk", "scan") else rnnc.cells.gru
    plan = plan_for(other, Shape(1, 256, 16), H200, variant).forward
    with pytest.raises(PlanError, match="a reduction over units"):
        kernel_source(NORMED, plan)


def test_every_search_leaves_out_the_kinds_that_refuse():
    request = PlanRequest(GRU, SHAPE, H200)
    kinds = {plan.kind for d in DIRECTIONS for plan in best_tilings(request, d)}
    kinds |= {plan.variant for plan in plans_for(GRU, SHAPE, H200)}
    assert kinds == {name for name, kind in KINDS.items() if kind.takes_stages}


def test_auto_takes_a_block_or_a_cluster_where_one_has_room():
    assert plan_for(GRU, SHAPE, H200).variant == "block"
    assert plan_for(GRU, Shape(3, 256, 16), H200).variant == "cluster"
    assert plan_for(GRU, Shape(1, 1024, 16), H200).variant == "grid"
    assert plan_for(GRU, Shape(1, 4096, 16), H200).variant == "alternating"


@pytest.mark.parametrize("name", ["lem", "rhn", "layer_norm_lstm", "block_gru"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_block_plans_stay_within_every_limit(name, dtype):
    # Counted again from the meaning of the fields, not from the constraints.
    cell = rnnc.cells.get(name)
    shape = Shape(2, 32, 16, dtype=dtype)
    for direction in DIRECTIONS:
        tables = tables_of(name, direction)
        for plan in block_tilings(PlanRequest(cell, shape, H200), direction):
            blocks = plan.blocks_per_multiprocessor
            held = plan.threads * plan.matrix_registers * 4
            assert held >= len(cell.dense_pairs) * 32**2 * shape.element_bytes
            assert plan.matrix_registers < plan.registers <= H200.registers_per_thread
            assert blocks * (plan.shared + 1024) <= H200.shared_per_multiprocessor
            parts = len(tables.statistics) * plan.warps * plan.rows * 8
            saved = len(tables.functions.saved_statistics) if direction == "backward" else 0
            assert plan.staged_bytes(tables) >= parts + plan.ahead * plan.rows * saved * 4
            assert plan.shared > plan.staged_bytes(tables)


@pytest.mark.parametrize("name", ["gru_reset_first", "rhn", "layer_norm_lstm", "block_gru"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_cluster_plans_stay_within_every_limit(name, dtype):
    # Counted again from the meaning of the fields, not from the constraints.
    cell = rnnc.cells.get(name)
    shape = Shape(2, 192, 16, dtype=dtype)
    for direction in DIRECTIONS:
        tables = tables_of(name, direction)
        for plan in cluster_kernels(PlanRequest(cell, shape, H200), direction):
            held = plan.cluster * plan.threads * plan.matrix_registers * 4
            assert held >= len(cell.dense_pairs) * 192**2 * shape.element_bytes
            assert plan.matrix_registers < plan.registers <= H200.registers_per_thread
            blocks = plan.blocks_per_multiprocessor
            assert blocks * (plan.shared + 1024) <= H200.shared_per_multiprocessor
            # Two buffers, of one number or more of eight rows, for each block and for some warps.
            parts = len(tables.statistics) * 2 * (plan.cluster + 1) * 32
            called = [s for s in tables.sources if s.state < 0]
            units = plan.cluster * plan.units * 8 * 2 * len(called)
            size = shape.element_bytes if direction == "forward" else 4
            saved = len(tables.functions.saved_statistics) if direction == "backward" else 0
            numbers = plan.ahead * plan.warps * 8 * saved * 4
            assert plan.staged_bytes(tables) >= parts + numbers + 16 * tables.meetings
            assert plan.shared >= plan.staged_bytes(tables) + units * size


@pytest.mark.parametrize(("name", "bytes_"), [("joint_norm_lstm", 16), ("block_gru", 8)])
def test_parts_of_numbers_are_whole_vectors(name, bytes_):
    """A backward's four sums of a row are a vector of 16 bytes, and one sum is a half."""
    assert part_bytes(tables_of(name, "backward")) == 2 * 8 * bytes_


def test_no_gate_pads_r_in_a_cluster_of_whole_tiles():
    halves_of = {"gru_reset_first": 3, "lem": 4, "rhn": 6, "multiplicative_lstm": 5}
    for name, halves in halves_of.items():
        request = PlanRequest(rnnc.cells.get(name), Shape(3, 256, 16), H200)
        for plan in cluster_kernels(request, "forward"):
            assert plan.units % 16 or plan.matrix_registers * plan.splits == halves * 32


def test_the_estimate_of_a_cluster_counts_the_exchanges_of_a_step():
    def exchange(name, direction):
        request = PlanRequest(rnnc.cells.get(name), Shape(3, 256, 16), H200)
        plan = cluster_kernels(request, direction)[0]
        return plan.estimate.exchange

    for direction in DIRECTIONS:
        assert exchange("gru_reset_first", direction) > 1.5 * exchange("gru", direction)
        assert exchange("rhn", direction) > 1.2 * exchange("gru_reset_first", direction)


def test_a_source_is_the_same_whatever_the_order_of_declarations():
    @rnnc.cell
    def one(z: rnnc.Gate, r: rnnc.Gate, n: rnnc.Gate, h: rnnc.State):
        return rnnc.sigmoid(z) * h + rnnc.tanh(n(rnnc.sigmoid(r) * h))

    @rnnc.cell
    def other(n: rnnc.Gate, r: rnnc.Gate, z: rnnc.Gate, h: rnnc.State):
        return rnnc.sigmoid(z) * h + rnnc.tanh(n(rnnc.sigmoid(r) * h))

    def functions(cell):
        code = cuda_source(cell, plan_for(cell, SHAPE, H200)).code
        return [line for line in code.splitlines() if line.startswith("  ") and " = " in line]

    first, second = functions(one), functions(other)
    assert [line for line in first if "[" not in line and "constexpr" not in line] == [
        line for line in second if "[" not in line and "constexpr" not in line
    ]


@pytest.mark.parametrize(
    ("eps", "normal"), [(1e-5, True), (1e-12, True), (1e-38, False), (0, False)]
)
def test_rsqrt_of_a_norm_tests_for_subnormal_numbers_only_below_a_bound(eps, normal):
    @rnnc.cell
    def normed(g: rnnc.Gate, h: rnnc.State):
        return rnnc.tanh(rnnc.layer_norm(g + h, eps=eps))

    @rnnc.cell
    def own(g: rnnc.Gate, h: rnnc.State):
        return rnnc.tanh(rnnc.layer_norm(g + h, eps=eps)) * rnnc.rsqrt(1e-40 + h * h)

    for direction in DIRECTIONS:
        assert stage_tables(derive(normed), direction).rsqrt_of_normals == normal
        assert not stage_tables(derive(own), direction).rsqrt_of_normals
