"""Calls of random modules against the reference: first, known, recorded and replayed ones."""

from __future__ import annotations

import pytest
from rnnc.verify.draw.case import Settings
from rnnc.verify.modules.draw import draw_module
from rnnc.verify.modules.report import report
from rnnc.verify.modules.run import run_module

SEED, CASES = 34, 24


@pytest.mark.parametrize("number", range(CASES))
def test_a_random_module_is_right(number):
    case = draw_module(SEED, number, Settings("cuda"))
    outcome = run_module(case)
    assert outcome.verdict != "wrong", report(case, (f"module {number}", *outcome.reasons))
