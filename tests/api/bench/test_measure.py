"""How `rnnc bench` measures: its clock, its turns, its deadline, compilation ahead."""

from __future__ import annotations

import json
import time

import pytest
import rnnc
import torch
from rnnc.bench import measure as bench
from rnnc.bench.cases import RowCase
from rnnc.bench.contenders.contender import Contender
from rnnc.bench.first_call import first_result
from rnnc.bench.inputs import Inputs
from rnnc.bench.measure import Settings, measure
from rnnc.bench.results import PHASES, Comparison, Result
from rnnc.bench.rows import Row
from rnnc.bench.timing import WarmUp, timed
from rnnc.codegen.shape import PlanError

ROW = Row("lstm", 2, 4, 2, 6)
CASE = RowCase(ROW, ("float32",), ("scan", "module", "nn", "loop"))
SETTINGS = Settings("cpu", repeat=3)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return measure(CASE, rnnc.cells.lstm, SETTINGS)


def test_every_contender_is_measured_in_every_phase(found):
    names = [r.contender.name for r in found.results]
    assert names == ["rnnc", "rnnc.RNN", "nn.LSTM", "eager loop"]
    for each in found.results:
        assert not each.failures
        assert list(each.figures) == list(PHASES)
        assert all(f.runs == 3 and 0 < f.fastest <= f.median for f in each.figures.values())
        assert each.first_seconds is not None
        assert each.peak_mib is None


def test_a_failing_contender_is_reported_and_the_others_go_on(monkeypatch):
    def broken(_: Inputs) -> bench.Call:
        raise ValueError("no nvcc\nsecond line")

    def late(inputs: Inputs) -> bench.Call:
        def run() -> torch.Tensor:
            if torch.is_grad_enabled():
                return inputs.wx.sum()
            raise RuntimeError("only in inference")

        return bench.Call(run, torch.ones(()), [inputs.wx])

    def infinite(inputs: Inputs) -> bench.Call:
        return bench.Call(lambda: inputs.wx / 0, inputs.wx, [inputs.wx])

    chosen = [
        Contender(name, "float32", False, "wx ready", prepare)
        for name, prepare in (("broken", broken), ("late", late), ("infinite", infinite))
    ]
    monkeypatch.setattr(bench, "contenders_for", lambda *_: chosen)
    results = measure(CASE, rnnc.cells.lstm, SETTINGS).results
    assert [r.failures for r in results] == [
        {"prepare": "ValueError: no nvcc second line"},
        {"inference": "RuntimeError: only in inference"},
        {"prepare": "its output is not finite"},
    ]
    assert [list(r.figures) for r in results] == [[], ["forward", "forward_backward"], []]


def test_a_variant_without_a_plan_is_left_out_with_its_constraint(monkeypatch):
    def planless(_: Inputs) -> bench.Call:
        raise PlanError("plan", "head dim 768", "at most 256", "more")

    chosen = [Contender("rnnc block", "float32", True, "wx ready", planless)]
    monkeypatch.setattr(bench, "contenders_for", lambda *_: chosen)
    without = measure(CASE, rnnc.cells.lstm, SETTINGS)
    assert not without.results
    reason = "no such plan: found head dim 768; wanted at most 256"
    assert without.left_out == {"rnnc block, float32": reason}


def test_nobody_starts_after_the_deadline():
    settings = Settings("cpu", deadline=time.monotonic() - 1)
    late = measure(CASE, rnnc.cells.lstm, settings)
    assert not late.results
    assert late.left_out["nn.LSTM, float32"] == "the time limit was reached"


def test_who_compiles_for_long_does_not_start_shortly_before_the_deadline(monkeypatch):
    def slow(_: Inputs) -> bench.Call:
        raise AssertionError("started")

    chosen = [Contender("FlashRNN", "float32", False, "wx ready", slow, start=60)]
    monkeypatch.setattr(bench, "contenders_for", lambda *_: chosen)
    settings = Settings("cpu", deadline=time.monotonic() + 10)
    late = measure(CASE, rnnc.cells.lstm, settings)
    assert late.left_out == {
        "FlashRNN, float32": "the time limit was reached: it would compile for 60 s"
    }


def test_after_the_deadline_runs_are_few():
    def late(deadline: float) -> list[int]:
        result = Result(Contender("a", "float32", False, "wx ready", lambda _: NotImplemented))
        result.warm_ups["forward"] = WarmUp(0.1, 0.1)
        call = bench.Call(lambda: torch.ones(()), torch.ones(()), [])
        settings = Settings("cpu", repeat=9, deadline=deadline)
        bench._measure_phase("forward", [(result, [call])], settings)
        return [f.runs for f in result.figures.values()]

    assert late(time.monotonic() - 1) == [3]
    assert late(time.monotonic() + 60) == [9]


def test_work_ahead_covers_the_host_s_time():
    assert WarmUp(1, 0.4).ahead == pytest.approx(0.8)
    assert WarmUp(1, 100).ahead == 20, "a loop's host is never ahead"
    warm_up = bench.warm_up(lambda: time.sleep(0.002), "cpu")
    assert warm_up.first >= 0.002
    assert warm_up.host >= 2


def test_the_clock_tells_a_pause():
    device, host = timed(lambda: time.sleep(0.01), "cpu")
    assert 10 <= device == host < 1000


def test_a_first_result_is_timed():
    text = rnnc.cells.elman.text
    request = json.dumps([text, "elman", [1, 4, 2, 3], "float32", "rnnc", "cpu"])
    forward, step = first_result(request)
    assert 0 < forward < step
