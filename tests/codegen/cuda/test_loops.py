"""Kernels with loops: as many registers for 1,000 passes as for two, and no spills."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import Gate, State, exp, sigmoid, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.nvrtc import built, unpacked

H200 = limits_of("H200")
SHAPES = {
    "block": Shape(heads=8, head_dim=64),
    "cluster": Shape(heads=1, head_dim=256),
    "grid": Shape(heads=1, head_dim=1024),
    "alternating": Shape(heads=1, head_dim=512, dtype="float32"),
    "step": Shape(heads=1, head_dim=64),
}


def hodgkin_huxley(passes: int) -> rnnc.Cell:
    """The squid's axon in Euler steps of 0.01 ms (Hodgkin & Huxley, 1952), with four states."""

    @rnnc.cell
    def hodgkin_huxley(i: Gate, v: State, m: State, h: State, n: State):
        def euler(v, m, h, n):
            current = i - 120 * m**3 * h * (v - 50) - 36 * n**4 * (v + 77) - 0.3 * (v + 54.387)
            opening_m = 0.1 * (v + 40) / (1 - exp(-(v + 40) / 10)) * (1 - m)
            opening_h = 0.07 * exp(-(v + 65) / 20) * (1 - h)
            opening_n = 0.01 * (v + 55) / (1 - exp(-(v + 55) / 10)) * (1 - n)
            return (
                v + 0.01 * current,
                m + 0.01 * (opening_m - 4 * exp(-(v + 65) / 18) * m),
                h + 0.01 * (opening_h - h / (1 + exp(-(v + 35) / 10))),
                n + 0.01 * (opening_n - 0.125 * exp(-(v + 65) / 80) * n),
            )

        return rnnc.repeat(passes, euler, v, m, h, n)

    return hodgkin_huxley


def wide(values: int) -> rnnc.Cell:
    """A loop that carries many values."""

    @rnnc.cell
    def wide(g: Gate, f: Gate, h: State, c: State):
        def step(*v):
            pairs = zip(v, (*v[1:], v[0]), strict=True)
            return tuple(0.5 * a + 0.3 * tanh(a * b) + 0.1 * g for a, b in pairs)

        first, second, *rest = rnnc.repeat(20, step, h, c, *([0.1] * (values - 2)))
        return first * sigmoid(f) + 0.1 * sum(rest), second

    return wide


@pytest.mark.parametrize("values", [16, 40])
@pytest.mark.parametrize(("variant", "dim"), [("block", 128), ("cluster", 512), ("grid", 1536)])
def test_the_planner_leaves_registers_for_what_a_loop_carries(variant, dim, values):
    """Else R, which stays in registers, would spill."""
    shape = Shape(heads=1 if variant != "block" else 8, head_dim=dim)
    cell = wide(values)
    for unit in cuda_source(cell, plan_for(cell, shape, H200, variant)).units:
        for report in unpacked(built(unit, H200.arch, shape.dtype)).reports.values():
            assert report.spills == 0


@pytest.mark.parametrize("variant", SHAPES)
def test_registers_do_not_grow_with_the_passes(variant):
    shape = SHAPES[variant]
    features = 64 if variant == "step" else None
    kind = "auto" if variant == "step" else variant
    found: dict[int, list[tuple[int, int, int]]] = {}
    for passes in (2, 50, 1000):
        cell = hodgkin_huxley(passes)
        plan = plan_for(cell, shape, H200, kind, features=features)
        assert plan.variant == variant
        units = cuda_source(cell, plan).units
        reports = [
            report
            for unit in units
            for report in unpacked(built(unit, H200.arch, shape.dtype)).reports.values()
        ]
        found[passes] = [(r.registers, r.spills, r.stack) for r in reports]
    for few, many in zip(found[2], found[1000], strict=True):
        assert many[0] <= few[0] + 8
    for each in found.values():
        assert max(spills for _, spills, _ in each) == 0
        # The kept values: of 50 passes, or of 32 in groups of 32.
        assert max(stack for _, _, stack in each) <= 1024
        if variant != "grid":  # where 64 hold R, and a cell that only adds takes as many
            assert max(registers for registers, _, _ in each) <= 128


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("cell", [hodgkin_huxley(50), wide(16)], ids=lambda cell: cell.name)
def test_as_many_clusters_share_an_sm_as_the_plan_counts_with(cell, dtype):
    """A cluster by itself has all registers, and with a loop the compiler took more than needed."""
    plan = plan_for(cell, Shape(heads=1, head_dim=256, dtype=dtype), H200, "cluster")
    kernels = zip((plan.forward, plan.backward), cuda_source(cell, plan).units, strict=True)
    for kernel, unit in kernels:
        assert kernel.blocks_per_multiprocessor == min(kernel.resident, 4)
        (report,) = unpacked(built(unit, H200.arch, dtype)).reports.values()
        assert report.registers <= kernel.registers
        assert report.spills == 0
