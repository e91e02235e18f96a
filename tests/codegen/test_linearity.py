"""Which backward maps are linear in the cotangents of the new states."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import (
    Gate,
    Param,
    State,
    clip,
    clip_gradient,
    maximum,
    sigmoid,
    stop_gradient,
    tanh,
    where,
)
from rnnc.cellspec.expression.node import symbol
from rnnc.cellspec.functions import TABLE
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.derive import derive
from rnnc.codegen.shape import Shape

from ..one_stage import ONE_STAGE


@rnnc.cell
def clipped_gate(g: Gate, k: Gate, h: State):
    """The gradient of a gate is clipped."""
    return tanh(clip_gradient(g, 0.1)) * sigmoid(k)


@rnnc.cell
def clipped_state(g: Gate, c: State, h: State):
    """What passes back from step to step is clipped."""
    c = tanh(g) + clip_gradient(c, 0.1)
    return c, tanh(c) * h


@rnnc.cell
def clipped_in_a_branch(g: Gate, k: Gate, h: State):
    """The clip is inside a branch."""
    return where(g > 0, clip_gradient(k * h, 0.1), g)


@rnnc.cell
def clipped_param(g: Gate, h: State, w: Param):
    """A param alone sees a clipped gradient."""
    return tanh(g) * clip_gradient(w, 0.1)


@rnnc.cell
def stopped(g: Gate, k: Gate, h: State):
    """Branches, ties and stopped gradients are linear."""
    return where(g > 0, stop_gradient(k) * h, maximum(g, k)) + clip(h * k, -1, 1) / (1 + g**2)


NOT_LINEAR = [clipped_gate, clipped_state, clipped_in_a_branch, clipped_param]


@pytest.mark.parametrize("activations", [True, False])
@pytest.mark.parametrize("cell", NOT_LINEAR, ids=lambda c: c.name)
def test_a_clipped_gradient_is_not_linear(cell, activations):
    assert not derive(cell, activations).linear


@pytest.mark.parametrize("activations", [True, False])
def test_all_other_functions_are_linear(activations):
    assert derive(stopped, activations).linear
    for name in ONE_STAGE:
        assert derive(rnnc.cells.get(name), activations).linear, name


@pytest.mark.parametrize("cell", [*NOT_LINEAR, stopped], ids=lambda c: c.name)
def test_a_cluster_waits_exactly_where_the_map_is_not_linear(cell):
    plan = plan_for(cell, Shape(heads=2, head_dim=128), limits_of("H200"), variant="cluster")
    flag = "false" if cell in NOT_LINEAR else "true"
    assert f"constexpr bool kLinear = {flag};" in cuda_source(cell, plan).code


def relaxing(passes: int) -> rnnc.Cell:
    @rnnc.cell
    def relaxing(g: Gate, h: State):
        return rnnc.repeat(passes, lambda v: 0.9 * v + 0.1 * rnnc.tanh(v + g), h)

    return relaxing


@pytest.mark.parametrize(("passes", "late"), [(2, "true"), (500, "false")])
def test_a_cluster_runs_the_passes_of_a_long_loop_once(passes, late):
    """A linear map is applied a second time while sums arrive, if that takes less time."""
    cell = relaxing(passes)
    assert derive(cell).linear
    plan = plan_for(cell, Shape(heads=2, head_dim=128), limits_of("H200"), variant="cluster")
    assert f"constexpr bool kLinear = {late};" in cuda_source(cell, plan).code


def test_all_functions_but_one_have_a_linear_pullback():
    """So kernels may add cotangents after the backward of cells that call them."""
    g, h = symbol("g"), symbol("h")
    for name, row in TABLE.items():
        if name == "where":
            continue
        arguments = (g, h, *row.defaults, 0.25)[: len(row.arguments)]
        cell = rnnc.Cell(
            name="one",
            gates=(Gate(name="g"),),
            states=(State(name="h"),),
            updates=(row.of(*arguments) + 0.1 * g * h,),
        )
        assert derive(cell).linear == (name != "clip_gradient"), name
