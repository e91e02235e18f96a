"""`rnnc bench --users --plans`: its kernels, its clock on a simulated GPU, its table, its file."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from pydantic import TypeAdapter
from rnnc.bench import report
from rnnc.bench.modules import plans as bench_plans
from rnnc.bench.modules.cases import Case, user_cases
from rnnc.bench.modules.plans import Candidates, PlanResult, Tiling, measure_plans
from rnnc.bench.modules.plans_table import plans_summary, plans_table, worst_first
from rnnc.cli.app import app
from rnnc.cli.bench import plans, rows
from rnnc.codegen.cuda.kinds import KINDS, best_tilings, kinds_for
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.shape import DIRECTIONS, PlanError
from rnnc.errors import ResidencyError
from typer.testing import CliRunner

H200 = limits_of("H200")
CASE = Case("gru", 32, 3, 5, "bfloat16")
SHORT = Case("gru", 32, 3, 2, "bfloat16", "inference")


def tiling(kind: str, took: float | None, estimate: float = 1.0) -> Tiling:
    return Tiling(kind, "sizes", estimate, took, "" if took else "no room", {})


def result(*took: float | None, case: str = "a case") -> PlanResult:
    kinds = ["block", "cluster", "grid"]
    tilings = tuple(map(tiling, kinds, took))
    return PlanResult(case, "forward", 5, 0, tilings)


def test_each_kind_gives_its_best_and_auto_s_choice_comes_first():
    for case in (CASE, Case("lstm", 512, 16, 64, "bfloat16"), Case("lstm", 64, 512, 16)):
        candidates = Candidates(case, H200)
        assert candidates.asked.tf32 == (case.dtype == "float32")
        assert candidates.directions == DIRECTIONS
        for direction in DIRECTIONS:
            plans = candidates.of(direction)
            assert plans[0] == getattr(candidates.chosen, direction)
            assert len({plan.as_compiled() for plan in plans}) == len(plans)
            for kind, found in kinds_for().items():
                own = [plan.cost for plan in plans[1:] if plan.kind == kind]
                assert own == sorted(own)
                assert len(own) <= 5
                try:
                    wanted = found.candidates_for_auto(candidates.asked, direction)
                except PlanError:
                    assert not own
                    continue
                cheapest = min(plan.cost for plan in wanted)
                of_kind = [plan.cost for plan in plans if plan.kind == kind]
                assert min(of_kind) <= cheapest
        assert len(candidates.of("forward")) > 8
    assert Candidates(SHORT, H200).directions == ("forward",)


def test_blocks_of_all_rows_and_groups_are_tilings():
    candidates = Candidates(Case("lstm", 64, 512, 16, "bfloat16"), H200)
    found = KINDS["block"].tilings(candidates.asked, "forward")
    assert {plan.rows for plan in found} == {4, 8}
    assert {plan.unit_groups for plan in found} == {1, 2}
    assert len(set(found)) == len(found)
    assert len(best_tilings(candidates.asked, "forward", 1)) == 4


def test_the_kernels_alone_are_timed(simulated_gpu, monkeypatch):
    monkeypatch.setattr(bench_plans, "_PASSES", 1)
    candidates = Candidates(CASE, H200)
    for direction in DIRECTIONS:  # alternating plans need a graph, which is not simulated
        kept = {p: None for p in candidates.of(direction) if p.kind != "alternating"}
        candidates._tilings[direction] = kept
    clock_said = []

    def clock(run):
        before = len(simulated_gpu)
        run()
        clock_said.append(simulated_gpu[before:])
        return float(len(clock_said))

    found = measure_plans(candidates, torch.device("cpu"), clock)
    counts = [len(each.tilings) for each in found]
    assert [each.direction for each in found] == list(DIRECTIONS)
    wanted = [["rnnc_forward"]] * counts[0] + [["rnnc_backward"]] * counts[1]
    assert clock_said == wanted
    assert simulated_gpu[0] == "rnnc_forward", "what the backwards read"
    assert found[0].auto.took == 1.0
    assert found[0].auto.estimate == pytest.approx(
        1e-6 * candidates.chosen.forward.estimate.of_call(5)
    )
    assert found[1].best is found[1].auto
    assert [each.took for each in found[0].tilings] == [1.0 + i for i in range(counts[0])]


def test_a_kernel_that_fails_is_not_timed_again(simulated_gpu, monkeypatch):
    candidates = Candidates(SHORT, H200)
    chosen = candidates.of("forward")[0]
    candidates._tilings["forward"] = {chosen: None, candidates.of("forward")[1]: None}
    asked = []

    def clock(run):
        asked.append(run)
        if len(asked) == 2:
            raise ResidencyError("launch", "no\nroom", "room", "less")
        return 2.0 if len(asked) == 1 else 1.0

    (found,) = measure_plans(candidates, torch.device("cpu"), clock)
    assert len(asked) == 3
    assert found.auto.took == 1.0, "the shorter of two"
    assert found.tilings[1].took is None
    assert "no room" in found.tilings[1].failure
    assert found.best is found.auto


def test_a_wrong_choice_comes_first_and_counts():
    good, bad, failed = result(1.0, 2.0), result(3.0, 1.5), result(None, 1.0)
    assert worst_first([good, bad, failed]) == [failed, bad, good]
    assert bad.ratio == 2.0
    assert bad.best.kind == "cluster"
    assert failed.ratio is None
    summary = plans_summary([good, bad, failed])
    assert summary["geometric mean of auto / best"] == pytest.approx(2**0.5)
    assert summary["worst"] == 2.0
    assert summary["worst case"] == "a case, forward"
    assert summary["failed"] == 1
    assert summary["above 1.1"] == 1
    assert summary["median error of the estimate"] == pytest.approx((0 + 2 / 3) / 2)
    assert list(plans_table([good, bad]).columns[-1].cells) == ["2.00", "1.00"]
    read = json.loads(json.dumps(bad.record()))
    assert TypeAdapter(PlanResult).validate_python(read) == bad
    assert plans_summary([]) == {"kernels": 0, "failed": 0}


def test_cases_have_names_and_numbers():
    every = user_cases("cuda")
    assert user_cases("cuda", None) == every
    assert user_cases("cuda", "1-3,60") == (*every[:3], every[-1])
    short = user_cases("cuda", "float16")
    assert {case.dtype for case in short} == {"float16"}
    for words, found in (("61", "case '61'"), ("0", "case '0'"), ("lstmm", "--cases 'lstmm'")):
        with pytest.raises(Exception, match=found):
            user_cases("cuda", words)


@pytest.fixture
def command(monkeypatch, simulated_gpu):
    """Runs the command on a simulated GPU, with a pool that compiles nothing."""
    asked = []

    class Pool:
        late = False

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, cell, plans):
            asked.extend(plans)

        def wait(self, cell, plans, deadline):
            return not self.late

    def measure(candidates, device):
        measured.append(candidates.case)
        return [result(1.0, 2.0, case=str(candidates.case))]

    measured: list[Case] = []
    monkeypatch.setattr(rows, "_device", lambda device: "cuda")
    monkeypatch.setattr(report, "machine", lambda device: {"device": "a GPU"})
    monkeypatch.setattr(plans, "CompilePool", Pool)
    monkeypatch.setattr(plans, "device_limits", lambda index: H200)
    monkeypatch.setattr(plans, "measure_plans", measure)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def run(*words):
        return CliRunner().invoke(app, ["bench", "--users", "--plans", *words])

    return SimpleNamespace(run=run, measured=measured, asked=asked, pool=Pool)


def test_the_command_goes_on_where_it_was_cut(command, tmp_path):
    path = tmp_path / "plans.json"
    first = command.run("--cases", "PPO", "--json", str(path))
    assert first.exit_code == 0, first.output
    assert "geometric mean of auto / best: 1.000" in first.stdout
    assert [case.steps for case in command.measured] == [16, 64]
    assert {plan.direction for plan in command.asked} == {"forward", "backward"}
    content = json.loads(path.read_text())
    assert len(content["kernels"]) == 2
    assert content["summary"]["kernels"] == 2
    second = command.run("--cases", "19-21", "--json", str(path))
    assert second.exit_code == 0, second.output
    assert len(command.measured) == 3, "two are in the file"
    assert "1 cases to measure, 2 measured before" in second.stdout
    assert len(json.loads(path.read_text())["kernels"]) == 3
    command.pool.late = True
    third = command.run("--cases", "1", "--limit", "0")
    assert "1 cases were cut by the time limit" in third.stdout


def test_cases_of_the_same_sizes_are_measured_once(command, tmp_path):
    path = tmp_path / "plans.json"
    outcome = command.run("--cases", "4,58", "--json", str(path))
    assert outcome.exit_code == 0, outcome.output
    assert [str(case) for case in command.measured] == ["LSTM 128, B 256, T 16, float32, training"]
    names = [record["case"] for record in json.loads(path.read_text())["kernels"]]
    assert names == [
        "LSTM 128, B 256, T 16, float32, training",
        "LSTM 128, B 256, T 16, float32, compiled",
    ]


def test_a_file_of_another_device_is_refused(command, tmp_path):
    path = tmp_path / "plans.json"
    path.write_text(json.dumps({"kernels": [], "machine": {"device": "another GPU"}}))
    outcome = command.run("--json", str(path))
    assert outcome.exit_code == 1
    assert "results of another GPU" in outcome.output
    path.write_text("[]")
    assert "write:  --json" in command.run("--json", str(path)).output
