"""Cells with loops on a CPU: what runs for a block of units at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import rnnc
from rnnc import Gate, State, sigmoid, tanh

LANES = "for (int lane"


@rnnc.cell
def relaxing(g: Gate, h: State):
    """A value of one pass that a loop in it reads, and the run after that loop too."""

    def outer(a):
        slope = 0.5 * a
        return tanh(rnnc.repeat(2, lambda b: g * b + slope, a)) + slope

    return rnnc.repeat(3, outer, h) * sigmoid(g)


def function(code: str, direction: str) -> list[str]:
    """The lines of a pointwise function, without their indentation."""
    text = re.search(rf"void pointwise_{direction}\(.*?\n}}\n", code, re.DOTALL)
    return [line.strip() for line in text[0].splitlines()]


def runs(lines: list[str]) -> Iterator[list[str]]:
    """The lines of each loop over units."""
    for first, line in enumerate(lines):
        if line.startswith(LANES):
            yield lines[first + 1 : first + lines[first:].index("}")]


def test_a_value_of_several_runs_is_an_array():
    assert function(relaxing.cpp().code, "forward")[1:] == [
        "Lanes t0;",
        "#pragma omp simd simdlen(kLanes)",
        "for (int lane = 0; lane < kBlock; ++lane) {",
        "t0[lane] = h[lane];",
        "}",
        "#pragma unroll 1",
        "for (int pass1 = 0; pass1 < 3; ++pass1) {",
        "Lanes t1;",
        "Lanes t2;",
        "#pragma omp simd simdlen(kLanes)",
        "for (int lane = 0; lane < kBlock; ++lane) {",
        "t1[lane] = real(0.5)*t0[lane];",
        "t2[lane] = t0[lane];",
        "}",
        "#pragma unroll 1",
        "for (int pass2 = 0; pass2 < 2; ++pass2) {",
        "#pragma omp simd simdlen(kLanes)",
        "for (int lane = 0; lane < kBlock; ++lane) {",
        "const real t3 = g[lane]*t2[lane] + t1[lane];",
        "t2[lane] = t3;",
        "}",
        "}",
        "#pragma omp simd simdlen(kLanes)",
        "for (int lane = 0; lane < kBlock; ++lane) {",
        "const real t4 = tanh(t2[lane]) + t1[lane];",
        "t0[lane] = t4;",
        "}",
        "}",
        "#pragma omp simd simdlen(kLanes)",
        "for (int lane = 0; lane < kBlock; ++lane) {",
        "h_next[lane] = t0[lane]*sigmoid(g[lane]);",
        "}",
        "}",
    ]


def test_a_condition_of_several_runs_is_an_array_of_numbers(loop_cells):
    """A comparison before a loop that runs backwards, and after it."""
    code = loop_cells.nested(rnnc.repeat, 4).cpp().code
    lines = function(code, "backward")
    (name,) = (line.split()[1][:-1] for line in lines if line.startswith("Conditions "))
    assert sum(f"where({name}[lane], " in line for run in runs(lines) for line in run) == 3


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("passes", [4, 700])
@pytest.mark.parametrize("name", ["neuron", "nested", "chained", "spiking"])
def test_loops_over_units_are_innermost_and_hold_all_arithmetic(
    name, passes, direction, loop_cells
):
    lines = function(loop_cells.CELLS[name](rnnc.repeat, passes).cpp().code, direction)
    found = list(runs(lines))
    assert found
    inside = [line for run in found for line in run]
    assert not any(line.startswith(("for", "if", "Lanes", "#")) for line in inside)
    assert len(inside) == sum(" = " in line for line in lines if not line.startswith(EXEMPT))


# Numbers of passes, and constants of the cell.
EXEMPT = ("for (", "const int ", "constexpr ")


def test_a_pass_that_is_kept_is_read_where_it_lies(loop_cells):
    lines = function(loop_cells.neuron(rnnc.repeat, 700).cpp().code, "backward")
    assert "Lanes kept_t0[26];" in lines
    assert "kept_t0[pass1 / 27][lane] = t0[lane];" in lines
    assert "t0[lane] = kept_t0[first1 / 27][lane];" in lines
    assert "again_t0[pass2][lane] = t0[lane];" in lines
    assert "const real t0 = again_t0[pass2][lane];" in lines


def test_other_sources_know_no_blocks(loop_cells):
    plain = rnnc.cells.lstm.cpp()
    looped = loop_cells.neuron(rnnc.repeat, 4)
    cuda = looped.cuda(head_dim=16)
    assert "lib/lanes.h" in dict(looped.cpp().headers)
    assert LANES in looped.cpp().code
    for source in (plain, cuda.forward_unit, cuda.backward_unit):
        assert "lib/lanes.h" not in dict(source.headers)
        assert LANES not in source.code
