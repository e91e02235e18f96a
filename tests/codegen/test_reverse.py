"""Sources for reversed time: those of a kernel that runs forwards, and one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import rnnc
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.derive import derive
from rnnc.codegen.render import render
from rnnc.codegen.shape import DIRECTIONS, Shape

KINDS = ("block", "cluster", "grid", "alternating")
GOLDEN = Path(__file__).parents[1] / "golden"
LINES = {
    True: "#define RNNC_REVERSE  // the cell runs from the last step to the first\n\n",
    "half": "#define RNNC_REVERSE_HALF"
    "  // the second half of the heads runs from the last step to the first\n\n",
}


@pytest.mark.parametrize("reverse", LINES)
@pytest.mark.parametrize("name", ["lstm", "slstm"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_line_says_the_order_of_time(kind, name, reverse):
    cell, line = rnnc.cells.get(name), LINES[reverse]
    plain = cell.cuda(heads=12, head_dim=64, variant=kind)
    other = cuda_source(cell, plain.plan.in_time(reverse))
    for direction in DIRECTIONS:
        text = getattr(other, direction)
        assert text.count(line) == 1
        assert text.replace(line, "") == getattr(plain, direction)
        assert text.index(line) < text.index("namespace"), "ahead of all headers"
    assert other.headers == plain.headers
    text = render(derive(cell), CpuPlan(reverse=reverse)).code
    assert text.count(line) == 1
    assert text.replace(line, "") == cell.cpp().code


def test_reversed_time_by_its_argument():
    cell = rnnc.cells.gru
    assert LINES[True] in cell.cpp(reverse=True).code
    for unit in cell.cuda(head_dim=32, reverse=True).units:
        assert LINES[True] in unit.code


def test_golden_source_of_reversed_time():
    file = GOLDEN / "lstm.block.backward.reverse.cu"
    code = rnnc.cells.lstm.cuda(heads=12, head_dim=64, variant="block", reverse=True).backward
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        file.write_text(code)
    assert code == file.read_text()


@pytest.mark.parametrize("order", LINES)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_order_of_time_differs_between_the_plans(kind, order):
    plan = plan_for(rnnc.cells.lstm, Shape(12, 64), limits_of("H200"), kind)
    reverse = plan.in_time(order)
    assert reverse.forward.reverse == reverse.backward.reverse == order
    assert reverse.in_time(order) is reverse
    assert reverse.in_time(False) == plan
    assert plan.in_time(False) is plan
    for direction in DIRECTIONS:
        one, other = getattr(plan, direction), getattr(reverse, direction)
        assert one != other
        assert one.as_compiled() != other.as_compiled(), "the name of a compiled file has it"
        assert (one.launch_shape, one.nanoseconds) == (other.launch_shape, other.nanoseconds)
    with pytest.raises(ValueError, match="do not go together: reverse"):
        type(plan)(plan.forward, reverse.backward)
