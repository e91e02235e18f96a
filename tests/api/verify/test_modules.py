"""The fuzzer of modules: what it draws, that it finds planted faults, and what it says of them."""

from __future__ import annotations

import importlib
import io
import re
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rnnc.verify.draw.case import Settings
from rnnc.verify.fuzz.shrink import shrink
from rnnc.verify.fuzz.worker import Kind
from rnnc.verify.fuzz.workers import run_cases
from rnnc.verify.modules.case import CHANGES, REFUSED, Call, ModuleCase
from rnnc.verify.modules.draw import draw_module
from rnnc.verify.modules.judge import judge_call, shares_of
from rnnc.verify.modules.report import report
from rnnc.verify.modules.run import MODULES, run_module
from rnnc.verify.modules.shrink import smaller
from rnnc.verify.modules.truth import Reference

SEED, RUN, CELLS = 35, 12, 150
SETTINGS = Settings(shipped=0)


@pytest.fixture
def plant(monkeypatch):
    """The module of faults, importable by its name here and in processes."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield importlib.import_module("plant_in_modules")
    sys.modules.pop("plant_in_modules")


@pytest.fixture(autouse=True)
def _one_cache(tmp_path_factory, monkeypatch):
    """The tests of this file share kernels."""
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "modules"))


@pytest.mark.parametrize(
    ("first", "end"), [(0, RUN), pytest.param(RUN, CELLS, marks=pytest.mark.slow)]
)
def test_random_modules_are_right(first, end):
    discarded = 0
    for number in range(first, end):
        case = draw_module(SEED, number, SETTINGS)
        outcome = run_module(case)
        assert outcome.verdict != "wrong", report(case, (f"module {number}", *outcome.reasons))
        discarded += outcome.verdict == "discarded"
    assert discarded <= 0.1 * (end - first)


def test_a_case_depends_on_its_number_alone():
    assert draw_module(3, 5, Settings()) == draw_module(3, 5, Settings())
    assert draw_module(3, 5, Settings()) != draw_module(3, 6, Settings())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_draws_everything(device):
    cases = [draw_module(n // 50, n, Settings(device)) for n in range(1500)]
    calls = [call for case in cases for call in case.calls]
    assert {case.layers for case in cases} >= {*range(1, 9), 12}
    assert {case.dtype for case in cases} == {"float64", "float32", "bfloat16", "float16"}
    assert {case.cell for case in cases} >= {"lstm", "gru", "gap_lstm", "gained_gru", "noisy_lstm"}
    for option in ("bias", "batch_first", "both", "frozen", "fresh", "burst", "passed"):
        assert {getattr(case, option) for case in cases} == {True, False}, option
    assert {bool(case.proj_size) for case in cases} == {True, False}
    assert {case.dropout for case in cases} == {0.0, 0.3, 1.0}
    assert {form for case in cases for form in case.forms} == {
        *("rows", "full", "heads", "steps", "units")
    }
    assert {call.kind for call in calls} == {"forward", "steps", "stepper", *CHANGES, *REFUSED}
    assert {call.mode for call in calls} == {
        *("backward", "twice", "late", "forward", "no_grad", "inference")
    }
    assert {call.reset_to for call in calls} == {"init", "shared", "rows", "stored", "own"}
    assert {(bool(c.lengths), bool(c.resets)) for c in calls if c.kind == "forward"} == {
        *((a, b) for a in (False, True) for b in (False, True))
    }
    for option in ("single", "states", "all_states", "x_gradient", "training"):
        assert {getattr(call, option) for call in calls} == {True, False}, option
    times = {case.calls.count(replace(call, values=0)) for case in cases for call in case.calls[:1]}
    assert max(times) >= 3  # with those of the other values, the fifth call is drawn


def test_draws_layers_that_may_run_at_the_same_time():
    cases = [draw_module(1, n, Settings("cuda")) for n in range(400)]
    large = [c for c in cases if max(call.steps for call in c.calls) >= 512 and c.layers > 1]
    assert len(large) > 50
    assert {(c.heads, c.dim) for c in large} == {(12, 64), (8, 64), (16, 64), (3, 256), (1, 512)}
    assert {c.order for c in large} == {"auto", "wavefront", "sequential"}
    assert {c.layers for c in large} >= {3, 4, 5, 6, 8}
    # Few head dims, dtypes and cells: kernels are shared by all cases of a run.
    assert len({(c.cell, c.dtype) for c in cases}) <= 5 * 4
    assert len({c.dim for c in cases}) <= 8


def test_each_result_is_judged():
    case = ModuleCase("lstm", (Call("forward", 2, 3),), layers=2, dim=3, dtype="float64")
    truth = Reference(case, torch.float64).results(case.calls[0], 0)
    shares = shares_of(truth, Reference(case, torch.float32).results(case.calls[0], 0))
    assert not judge_call(case, truth, truth, shares)
    assert {"y", "h last", "d x", "d weight_hh_l1"} <= truth.keys()
    for name, exact in truth.items():
        off = exact.contiguous().clone().flatten()
        off[-1] += 1e-8 * exact.abs().max()
        off = off.view(exact.shape)
        for found in (off, exact[:0], exact.float(), exact * float("nan")):
            assert judge_call(case, truth | {name: found}, truth, shares).keys() == {name}
        assert judge_call(case, {n: t for n, t in truth.items() if n != name}, truth, shares)


def test_a_result_whose_terms_cancel_is_not_wrong():
    """One number, the sum over 198 units: one rounding of the inputs changes it by its size."""
    options = {"layers": 3, "dim": 33, "input_size": 8, "both": True, "dtype": "bfloat16"}
    calls = (Call("forward", states=True),)
    case = ModuleCase("gained_gru", calls, 1893321431, forms=("steps", "units"), **options)
    assert run_module(case).verdict == "right"


@pytest.mark.parametrize(
    "fault",
    [
        "a wrong gradient of one layer",
        "a known call with an earlier result",
        "a known call without its resets",
        "a stepper with earlier weights",
        "both directions with one draw",
        "a backward that draws anew",
    ],
)
def test_a_planted_fault_is_found(fault, plant):
    cases = (draw_module(SEED, n, SETTINGS) for n in range(400))
    with plant.planted(fault):
        found = next(
            (c for c in cases if may_show(fault, c) and run_module(c).verdict == "wrong"), None
        )
        assert found is not None
        outcome = run_module(found)
    assert outcome.kind == "a wrong value"
    assert any(reason.startswith("in result ") for reason in outcome.reasons)
    # It is the fault that was found: without it the case is right.
    assert run_module(found).verdict == "right"


def may_show(fault: str, case: ModuleCase) -> bool:
    """Whether a case may show the fault: others need not be compiled to be found right."""
    kinds = " ".join(call.kind for call in case.calls)
    if "stepper" in fault:
        return bool(re.search("stepper.*(copy_|load_state_dict).*stepper", kinds))
    if "draw" in fault:
        draws = any(call.training and call.kind == "forward" for call in case.calls)
        drawn = case.cell == "noisy_lstm" and not case.passed and draws
        return drawn and (case.both or "both" not in fault)
    resets = sum(bool(call.resets) for call in case.calls)
    return case.cell == "lstm" and case.dtype == "float64" and (resets > 2 or "resets" not in fault)


def outcomes(kind: Kind, numbers: list[int], jobs: int = 1) -> list:
    return [*run_cases(kind, SEED, numbers, None, SETTINGS, jobs)]


def test_a_call_that_does_not_answer_is_a_hang(plant):
    (done,) = outcomes(replace(MODULES, run=plant.run_that_hangs, seconds=4.0), [0])
    assert (done.outcome.verdict, done.outcome.kind) == ("wrong", "a hang")
    silent, doing = done.outcome.reasons
    assert silent.startswith("no result after ")
    assert doing.startswith(f"in call 1 of {len(done.case.calls)}: ")


def test_a_case_that_goes_on_is_no_hang(plant):
    (done,) = outcomes(replace(MODULES, run=plant.run_that_says_what_it_does, seconds=4.0), [0])
    assert done.outcome.verdict == "right"


def test_a_crash_says_in_which_call(plant):
    (done,) = outcomes(replace(MODULES, run=plant.run_that_crashes), [0])
    assert (done.outcome.kind, done.outcome.reasons[0]) == (
        *("a crash", "the process ended with the code 3"),
    )


def test_fresh_cases_have_a_process_of_their_own(plant):
    numbers = [*range(40)]
    kind = replace(MODULES, run=plant.run_after_others)
    assert any(draw_module(SEED, n, SETTINGS).fresh for n in numbers)
    for done in outcomes(kind, numbers):
        first = done.number == 0 or done.case.fresh
        assert (done.outcome.verdict == "right") == first
        assert (done.before == ()) == first


def test_shrinks_to_what_matters():
    """A case fails here where it has a stepper after a change."""

    def fails(case: ModuleCase) -> bool:
        kinds = [call.kind for call in case.calls]
        changes = [i for i, kind in enumerate(kinds) if kind in CHANGES]
        return bool(changes) and "stepper" in kinds[changes[0] :]

    case = next(c for c in (draw_module(4, n, Settings()) for n in range(400)) if fails(c))
    smallest = shrink(case, fails, smaller)
    assert [call.kind in CHANGES for call in smallest.calls] == [True, False]
    assert (smallest.layers, smallest.heads, smallest.dim, smallest.input_size) == (1, 1, 1, 1)
    assert (smallest.calls[1].batch, smallest.calls[1].steps) == (1, 1)
    assert smallest.flags == "quick"


def test_smaller_cases_run():
    case = next(
        c
        for c in (draw_module(SEED, n, SETTINGS) for n in range(300))
        if c.cell == "lstm" and c.layers < 4 and any(call.lengths for call in c.calls)
        if any(call.resets for call in c.calls) and not {x.kind for x in c.calls} & {*REFUSED}
    )
    tried = [*smaller(case)]
    assert len(tried) > 20
    for each in tried[::7]:
        assert run_module(each).verdict == "right", each


def test_a_report_runs_the_case_again(plant):
    case = ModuleCase("lstm", (Call("forward", 2, 3, mode="backward"),), layers=2, dim=3)
    text = report(case, ("a reason\nof two lines",))
    assert text.startswith("# a reason\n# of two lines\n")
    assert "calls=(\n        Call(kind='forward', batch=2, steps=3),\n" in text
    assert ran(text) == "Outcome(verdict='right', reasons=(), kind='')\n"
    with plant.planted("a wrong gradient of one layer"):
        assert ran(text).startswith("Outcome(verdict='wrong', reasons=('d weight_hh_l1: is off")


def ran(text: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, "<report>", "exec"), {})
    return printed.getvalue()
