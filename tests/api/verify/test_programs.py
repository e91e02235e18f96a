"""The programs that the fuzzer writes, against golden files: each is the same to the byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from rnnc.verify.draw.tree import (
    Case,
    CellDraw,
    GateDraw,
    InputDraw,
    Node,
    ValueDraw,
    name,
    number,
)
from rnnc.verify.fuzz import report as drawn
from rnnc.verify.modules.case import Call, ModuleCase
from rnnc.verify.modules.report import report as module_report

GOLDEN = Path(__file__).parents[2] / "golden" / "programs"
REASONS = ("h over time: is off\nby 1e-3", "d wx: has another shape")
PLAIN = CellDraw(
    gates=(GateDraw("g"),),
    states=(ValueDraw("h"),),
    params=(),
    constants=(),
    order=("g", "h"),
    body=(("new_h", Node("tanh", (name("g"),))),),
)
FULL = CellDraw(
    gates=(GateDraw("g", recurrent="diagonal", bias=False), GateDraw("f", input=False)),
    states=(ValueDraw("h", 0.5), ValueDraw("c")),
    params=(ValueDraw("p", 1.0),),
    constants=(ValueDraw("a", 0.25),),
    order=("g", "f", "h", "c", "p", "a", "u"),
    body=(
        ("new_c", Node("*", (name("p"), Node("silu", (name("g"),))))),
        ("new_h", Node("+", (Node("clip_gradient", (name("f"), number(0.5))), name("u")))),
    ),
    inputs=(InputDraw("u"),),
)
NO_INPUT = CellDraw(
    gates=(GateDraw("g", input=False),),
    states=(ValueDraw("h"),),
    params=(),
    constants=(),
    order=("g", "h"),
    body=(("new_h", name("g")),),
)
ROWS = {"lengths": (3, 2), "resets": ((1,), ())}
CASES = {
    "scan": Case(PLAIN, reverse=True, states=False, without=("R",), silent=("h last",)),
    "scan_rows": Case(FULL, json=True, reset_to="stored", views=(("wx", "offset"),), **ROWS),
    "module": Case(PLAIN, dtype="float16", through="module", layers=2, bias=False, states=False),
    "module_rows": Case(FULL, through="module", both=True, reset_to="rows", **ROWS),
    "module_without_input": Case(NO_INPUT, through="module", batch_first=True),
    "module_resets": Case(PLAIN, through="module", resets=((1,), (2,))),
    "step": Case(FULL, dtype="float32", through="step", heads=2),
    "compiled": Case(
        PLAIN,
        through="inductor",
        lengths=(1, 3),
        reset_to="shared",
        resets=((), (2,)),
        views=(("x", "expanded:1"), ("d y", "negative"), ("R", "transposed")),
    ),
}


def same_as_golden(file: str, text: str) -> None:
    """Set RNNC_UPDATE_GOLDEN=1 to accept a new text; then read the difference in the commit."""
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        (GOLDEN / file).write_text(text)
    assert text == (GOLDEN / file).read_text()


@pytest.mark.parametrize("kind", CASES)
def test_the_test_of_a_drawn_cell(kind, monkeypatch):
    def counted(case, seed):
        """Values that no generator of random numbers gives."""
        return tuple(
            {n: torch.arange(t.numel()).view(t.shape) for n, t in each.items()}
            for each in draw(case, seed)
        )

    draw = drawn.draw_values
    monkeypatch.setattr(drawn, "draw_values", counted)
    same_as_golden(f"{kind}.txt", drawn.report(CASES[kind], REASONS))


def test_the_program_of_a_module():
    calls = (Call("forward", 2, 3, mode="backward"), Call("forward", 1, 4))
    case = ModuleCase("lstm", calls, layers=2, dim=3)
    same_as_golden("calls.txt", module_report(case, REASONS))
