"""Each kind of plan takes heads of a cell with stages up to 3/4 of the largest without them."""

from __future__ import annotations

import json

import pytest
import rnnc
from rnnc.codegen.cuda.kinds import KINDS
from rnnc.codegen.cuda.largest import largest_head_dims
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.request import PlanRequest
from rnnc.codegen.shape import DIRECTIONS, PlanError, Shape

H100 = limits_of("H100")
slow = pytest.mark.slow
# Where no plan keeps the margin of registers, and one without it fits.
WITHOUT_MARGIN = [
    ("layer_norm_lstm", "bfloat16", "block", 80),
    ("layer_norm_lstm", "bfloat16", "cluster", 384),
    ("mogrifier_lstm", "bfloat16", "block", 8),
    ("mogrifier_lstm", "bfloat16", "grid", 192),
    ("wmc_lstm", "float32", "block", 24),
    ("mogrifier_lstm", "float32", "cluster", 48),
    ("rhn", "float32", "grid", 768),
    ("mgu", "bfloat16", "grid", 2376),
    # Among 5, 7 or 9 blocks alone.
    ("layer_norm_lstm", "bfloat16", "cluster", 160),
    ("joint_norm_lstm", "bfloat16", "cluster", 224),
    ("mut3", "bfloat16", "cluster", 288),
    # Rows whose end the kernel looks for.
    ("layer_norm_lstm", "float32", "grid", 8),
    ("lem", "float32", "grid", 792),
    # 13 matrices in 6 rounds.
    ("mogrifier_lstm", "bfloat16", "grid", 576),
    # With 14 params a thread has too few registers for all that it keeps.
    ("layer_norm_lstm", "float32", "block", 48),
    ("layer_norm_lstm", "float32", "grid", 632),
]
QUICK = ["mgu", "mut1"]
STAGED = [name for name in rnnc.cells.names() if rnnc.cells.get(name).has_stages]


def one_stage(cell):
    """A cell of the same gates and states, whose called gates multiply the first state."""
    form = json.loads(cell.to_json())
    gates = " + ".join(f"tanh({gate.name})" for gate in cell.gates)
    form["updates"] = [f"0.5*{state.name} + 0.1*({gates})" for state in cell.states]
    return rnnc.Cell.from_json(json.dumps(form | {"params": [], "constants": [], "inputs": []}))


def has_plan(cell, shape, kind):
    """Whether there are kernels of a kind for both directions."""
    try:
        return all(KINDS[kind].candidates(PlanRequest(cell, shape, H100), d) for d in DIRECTIONS)
    except PlanError:
        return False


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else slow) for name in STAGED]
)
def test_heads_up_to_three_quarters_of_the_largest(name, dtype):
    cell = rnnc.cells.get(name)
    staged, without = (largest_head_dims(c, H100, dtype).dims for c in (cell, one_stage(cell)))
    for kind, largest in without.items():
        # Head dims are counted in steps of 8.
        assert staged[kind] >= 0.75 * largest // 8 * 8, (kind, staged, without)


@pytest.mark.parametrize(
    ("name", "dim", "variant"),
    [
        ("mogrifier_lstm", 8, "block"),
        ("mogrifier_lstm", 32, "cluster"),
        ("layer_norm_lstm", 80, "cluster"),
    ],
)
def test_auto_takes_a_block_without_the_margin_in_place_of_a_kernel_per_step(name, dim, variant):
    assert plan_for(rnnc.cells.get(name), Shape(8, dim, 16), H100).variant == variant


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", STAGED)
def test_heads_between(name, dtype):
    cell = rnnc.cells.get(name)
    twin = one_stage(cell)
    for kind, largest in largest_head_dims(twin, H100, dtype).dims.items():
        for dim in (*range(8, largest * 3 // 4, 40), 5, 28, 44, 333, 514, 602):
            shape = Shape(1, dim, 1, 1, dtype=dtype)
            if dim <= largest * 3 // 4 and has_plan(twin, shape, kind):
                assert has_plan(cell, shape, kind), (kind, dim)


@pytest.mark.parametrize(("name", "dtype", "variant", "dim"), WITHOUT_MARGIN)
def test_a_plan_without_the_margin(name, dtype, variant, dim):
    cell, shape = rnnc.cells.get(name), Shape(1, dim, 16, dtype=dtype)
    plan = plan_for(cell, shape, H100, variant)
    assert plan.variant == variant
    for kernel in plan.kernels.values():
        assert kernel.matrix_registers < kernel.registers <= H100.registers_per_thread
    find = KINDS[variant].candidates_for_auto
    with pytest.raises(PlanError, match="registers"):
        [find(PlanRequest(cell, shape, H100), direction) for direction in DIRECTIONS]
