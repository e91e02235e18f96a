"""Sources for reversed time: those of a kernel that runs forwards, and one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import DIRECTIONS, Shape

KINDS = ("block", "cluster", "grid", "alternating")
GOLDEN = Path(__file__).parents[1] / "golden"
LINE = "#define RNNC_REVERSE  // the cell runs from the last step to the first\n\n"


@pytest.mark.parametrize("name", ["lstm", "slstm"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_line_says_the_order_of_time(kind, name):
    cell = rnnc.cells.get(name)
    plain, reverse = (
        cell.cuda(heads=12, head_dim=64, variant=kind, reverse=r) for r in (False, True)
    )
    for direction in DIRECTIONS:
        text = getattr(reverse, direction)
        assert text.count(LINE) == 1
        assert text.replace(LINE, "") == getattr(plain, direction)
        assert text.index(LINE) < text.index("namespace"), "ahead of all headers"
    assert reverse.headers == plain.headers
    text = cell.cpp(reverse=True).code
    assert text.replace(LINE, "") == cell.cpp().code
    assert text.count(LINE) == 1


def test_golden_source_of_reversed_time():
    file = GOLDEN / "lstm.block.backward.reverse.cu"
    code = rnnc.cells.lstm.cuda(heads=12, head_dim=64, variant="block", reverse=True).backward
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        file.write_text(code)
    assert code == file.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_order_of_time_differs_between_the_plans(kind):
    plan = plan_for(rnnc.cells.lstm, Shape(12, 64), limits_of("H200"), kind)
    reverse = plan.in_time(True)
    assert reverse.forward.reverse
    assert reverse.backward.reverse
    assert reverse.in_time(True) is reverse
    assert reverse.in_time(False) == plan
    assert plan.in_time(False) is plan
    for direction in DIRECTIONS:
        one, other = getattr(plan, direction), getattr(reverse, direction)
        assert one != other
        assert one.as_compiled() != other.as_compiled(), "the name of a compiled file has it"
        assert (one.launch_shape, one.nanoseconds) == (other.launch_shape, other.nanoseconds)
    with pytest.raises(ValueError, match="do not go together: reverse"):
        type(plan)(plan.forward, reverse.backward)
