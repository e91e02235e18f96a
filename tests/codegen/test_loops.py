"""Loops in programs: what is kept, what runs backwards, and what each line came from."""

from __future__ import annotations

import re

import pytest
import rnnc
from rnnc import Gate, State, clip_gradient, sigmoid, tanh
from rnnc.cellspec.expression.graph import everywhere
from rnnc.codegen.derive import derive, derived
from rnnc.codegen.parts import kept_values
from rnnc.codegen.program import Loop, Unwinding
from rnnc.codegen.shape import Dtype
from rnnc.codegen.source_terms import source_terms


@rnnc.cell
def relaxing(g: Gate, h: State):
    """One carried value and one that no pass changes."""
    return rnnc.repeat(9, lambda v: 0.9 * v + tanh(v) * sigmoid(g), h)


@rnnc.cell
def clipped(g: Gate, h: State):
    """A gradient that every pass clips."""
    return rnnc.repeat(9, lambda v: 0.9 * v + clip_gradient(tanh(v), 0.1) * sigmoid(g), h)


def test_the_backward_runs_the_passes_backwards():
    assert relaxing.backward_equations() == (
        "repeat 9 times, from t0 = h:",
        "  t1 = 0.9*t0 + tanh(t0)*sigmoid_g",
        "  t0 = t1",
        "backwards through the passes with their t0, from d_t0 = d_h_next, t2 = 0:",
        "  tanh_t0 = tanh(t0)",
        "  t3 = 0.9*d_t0 + d_t0*sigmoid_g*(1 - tanh_t0**2)",
        "  t4 = t2 + d_t0*tanh_t0",
        "  d_t0, t2 = t3, t4",
        "d_g = t2*sigmoid_g*(1 - sigmoid_g)",
        "d_h = d_t0",
    )


def test_linear_where_no_pass_clips():
    assert derive(relaxing).linear
    assert not derive(clipped).linear


@pytest.mark.parametrize(("passes", "every"), [(2, 1), (256, 1), (257, 17), (65_536, 256)])
def test_passes_that_are_kept(passes, every, loop_cells):
    """Two float32 numbers of 256 passes are 2 KiB. More passes are kept as groups."""
    pointwise = derive(loop_cells.neuron(rnnc.repeat, passes))
    loop, unwinding = (s for s in pointwise.backward.statements if isinstance(s, Loop | Unwinding))
    assert loop.keeps
    assert unwinding.loop == loop
    assert loop.every == every
    (alone,) = (s for s in pointwise.forward.statements if isinstance(s, Loop))
    assert not alone.keeps


@pytest.mark.parametrize("passes", [3, 300])
@pytest.mark.parametrize("name", ["neuron", "nested", "chained"])
def test_kept_values_are_as_many_as_the_arrays_hold(name, passes, loop_cells):
    cell = loop_cells.CELLS[name](rnnc.repeat, passes)
    units = {unit.plan.direction: unit.code for unit in cell.cuda(head_dim=64).units}
    array = re.compile(r"real (?:kept|again)_\w+\[(\d+)\];")
    sizes = {direction: list(map(int, array.findall(code))) for direction, code in units.items()}
    assert len(sizes["backward"]) > 1
    for direction, found in sizes.items():
        assert kept_values(derive(cell).program(direction).statements) == sum(found)
    assert not sizes["forward"]


def test_operations_count_every_pass(loop_cells):
    few, many = (derive(loop_cells.neuron(rnnc.repeat, n)).forward for n in (10, 20))
    one = derive(loop_cells.neuron(loop_cells.unrolled, 1)).forward
    assert many.operations - few.operations == (many.operations - one.operations) / 19 * 10
    groups = derive(loop_cells.neuron(rnnc.repeat, 300)).backward
    kept = derive(loop_cells.neuron(rnnc.repeat, 200)).backward
    assert groups.operations / 300 > 1.2 * kept.operations / 200


def test_reach_goes_through_passes(loop_cells):
    """Both carried values depend on both after two passes."""
    reach = derive(loop_cells.neuron(rnnc.repeat, 3)).backward.reach()
    assert reach["d_m"] >= {"d_v_next", "d_m_next", "v", "m"}
    assert "d_w" in reach


@pytest.mark.parametrize("name", ["neuron", "nested", "chained", "decaying", "spiking", "long"])
def test_lines_of_a_source_have_the_terms_of_bodies(name, loop_cells):
    cell = loop_cells.CELLS[name](rnnc.repeat, 4)
    source = cell.cpp()
    lines = source.code.splitlines()
    terms = source_terms(derive(cell), source)
    found = {term for line in terms for term in line}
    calls = {n for n in everywhere(cell.updates) if n.op == "call"}
    assert calls <= found
    heads = [i for i, line in enumerate(lines) if "for (int pass" in line]
    assert heads
    assert all(terms[i] == () for i in heads)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sources_do_not_depend_on_the_process(dtype: Dtype, loop_cells):
    """Tags of the derivation are counted in each process, and show in no text."""
    cell = loop_cells.nested(rnnc.repeat, 4)
    code = cell.cpp(dtype).code
    derived.cache_clear()
    loop_cells.chained(rnnc.repeat, 3)
    again = rnnc.Cell.from_json(cell.to_json())
    assert again.cpp(dtype).code == code
