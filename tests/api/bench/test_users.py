"""`rnnc bench --users`: its cases, its clock, its table and its file."""

import json
import math
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.bench.modules import budget, contenders
from rnnc.bench.modules import cases as users_cases
from rnnc.bench.modules.budget import Budget, in_order
from rnnc.bench.modules.cases import Case, user_cases
from rnnc.bench.modules.contenders import user_contenders
from rnnc.bench.modules.measure import measure_modules
from rnnc.bench.modules.results import OURS, STEPPER, ModuleResult, Side
from rnnc.bench.modules.tables import losses_first, summary, users_table
from rnnc.cli.app import app
from rnnc.errors import TensorError
from typer.testing import CliRunner

SMALL = Case("gru", 4, 2, 3)


def result(ours: float, torchs: float, case: Case = SMALL) -> ModuleResult:
    side = Side(torchs, runs=3)
    return ModuleResult(case, {OURS: Side(ours, runs=3), "float32": side})


def measured(case: Case, until: float = math.inf, repeat: int = 3) -> ModuleResult:
    return measure_modules(case, user_contenders(case, "cpu"), "cpu", repeat, until)


def test_cases_differ_and_cover_what_they_should():
    cuda, cpu = user_cases("cuda"), user_cases("cpu")
    assert len(cuda) == 60
    for cases in (cuda, cpu):
        assert len({str(case) for case in cases}) == len(cases)
    for name, wanted in {
        "dtype": {"float32", "bfloat16", "float16"},
        "steps": {1, 16, 64, 256, 1024, 8192},
        "layers": {1, 2, 4, 5},
        "both": {False, True},
        "batch_first": {False, True},
        "module": {"lstm", "gru", "elman"},
    }.items():
        assert {getattr(case, name) for case in cuda} >= wanted
    assert {case.batch for case in cuda} >= {1, 512}
    assert {case.hidden for case in cuda} >= {32, 1024}
    assert {case.mode for case in cuda} >= {"training", "inference", "step", "compiled"}


@pytest.mark.parametrize(
    "case",
    [
        SMALL,
        Case("lstm", 4, 2, 3, mode="inference", layers=2, batch_first=True, inputs=5),
        Case("elman", 4, 2, mode="step"),
        Case("lstm", 4, 2, mode="step training"),
    ],
    ids=str,
)
def test_both_sides_are_timed(case):
    found = measured(case)
    assert found.failure == ""
    assert found.ours.runs == found.peer.runs == 3
    assert found.ours.wall > 0
    assert found.times() == found.peer.wall / found.ours.wall
    assert found.times("device") is None


def test_both_sides_train_all_their_weights():
    """The clock would not notice a side that skips its backward."""
    seen = []

    def spy(case, module, device, call):
        run = train(case, module, device, call)
        hooks = [p.register_hook(seen.append) for p in module.parameters()]
        run()
        return lambda: hooks

    train = contenders._run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contenders, "_run", spy)
        contenders.ours(SMALL, "cpu")
        ours = len(seen)
        contenders.torchs(SMALL, "cpu", torch.float32)
    assert ours == 3  # input, recurrent, bias
    assert len(seen) - ours == 4


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")
def test_a_converted_module_is_rnnc_s_with_torch_s_weights(monkeypatch):
    made = []
    monkeypatch.setattr(contenders, "_run", lambda case, module, *_: made.append(module))
    contenders.converted(SMALL, "cpu")
    assert isinstance(made[0], rnnc.nn.GRU)
    projecting = Case("lstm", 8, 2, 3, projected=2)
    assert str(projecting).startswith("LSTM 8 to 2, B 2")
    for make in (contenders.ours, lambda *where: contenders.torchs(*where, torch.float32)):
        make(projecting, "cpu")
    x = torch.randn(3, 2, 8)
    assert [module(x)[0].shape for module in made[1:]] == [(3, 2, 2)] * 2


def test_a_bfloat16_case_meets_torch_in_two_dtypes():
    case = Case("gru", 4, 2, 3, "bfloat16", "inference")
    found = measured(case)
    assert set(found.peers) == {"bfloat16", "float16"}


def test_what_does_not_run_is_a_line_with_its_reason():
    odd = replace(SMALL, hidden=-4, inputs=4)
    with pytest.raises(TensorError):
        contenders.ours(odd, "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contenders, "torchs", lambda *_: lambda: None)
        found = measured(odd)
    assert "hidden_size" in found.failure
    assert found.ours is None
    assert found.peer is not None
    assert summary([found, result(1, 2)])[0] == "1 of 2 cases did not run"


def test_a_side_that_fails_in_its_run_is_a_line_too(monkeypatch):
    def broken():
        raise RuntimeError("out of luck")

    monkeypatch.setattr(contenders, "ours", lambda *_: broken)
    found = measured(SMALL)
    assert found.failure == "RuntimeError: out of luck"
    assert found.ours is None
    assert found.peer.runs == 3


def test_both_directions_are_asked_of_both_sides(monkeypatch):
    asked = []

    def rnn(*_, **options):
        asked.append(options["bidirectional"])
        return torch.nn.GRU(4, 4, bidirectional=True)

    monkeypatch.setattr(contenders, "RNN", rnn)
    both = contenders.ours(Case("gru", 4, 2, 3, both=True), "cpu")()
    assert asked == [True]
    assert contenders.torchs(Case("gru", 4, 2, 3, both=True), "cpu", torch.float32)().shape == (
        both.shape
    )


def test_a_stepper_is_timed_beside_a_step(monkeypatch):
    class Stepper(contenders.RNN):
        def stepper(self, batch_size):
            assert batch_size == 2
            return lambda x: self.step(x)

    case = Case("elman", 4, 2, mode="step")
    monkeypatch.setattr(contenders, "RNN", Stepper)
    found = measured(case)
    stepper = found.sides[STEPPER]
    assert stepper.runs == 3
    assert found.times(name=STEPPER) == found.peer.wall / stepper.wall
    assert summary([found])[-1].startswith(f"rnn.stepper, {case}: ")
    for other in (SMALL, Case("elman", 4, 2, mode="step training")):
        assert STEPPER not in measured(other).sides
    assert ModuleResult.of_record(json.loads(json.dumps(found.record()))) == found


def test_a_long_case_has_fewer_runs():
    until = time.monotonic() - 1
    assert measured(SMALL, until, 9).ours.runs == 3


def test_time_is_divided_and_what_is_left_goes_to_the_others(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: now[0]))
    compiled = Case("gru", 4, 2, 3, mode="compiled")
    cases = in_order([compiled, SMALL, SMALL, compiled])
    assert cases == [SMALL, SMALL, compiled, compiled]
    found = Budget(cases, 280.0)  # 160 of 180 seconds are for the compiled cases
    assert found.until(SMALL) == pytest.approx(110.0)
    now[0] = 110.0
    assert found.until(SMALL) == pytest.approx(120.0)
    now[0] = 114.0
    assert found.until(compiled) == pytest.approx(197.0), "with what the second has left"
    found.took(compiled, 60.0)
    now[0] = 250.0
    assert found.until(compiled) is None, "it may take as long as the first"
    late = Budget([SMALL], 240.0)
    assert late.until(SMALL) is None
    assert Budget([SMALL], math.inf).until(SMALL) == math.inf


def test_losses_come_first_and_are_counted():
    slow, fast = result(2, 1, Case("gru", 4, 2, 5)), result(1, 4)
    assert losses_first([fast, slow]) == [slow, fast]
    assert summary([fast, slow]) == [
        "geometric mean: 1.41 times torch by wall-clock",
        f"worst case: 0.50 times ({slow.case})",
        "slower than torch: 1 of 2 cases by wall-clock",
    ]
    table = users_table([fast, slow])
    assert list(table.columns[0].cells) == [str(slow.case), str(fast.case)]


def test_the_command_prints_and_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(users_cases, "_CPU", (SMALL,))
    words = ["bench", "--users", "--device", "cpu", "--repeat", "3", "--output", str(tmp_path)]
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output
    assert str(SMALL) in outcome.stdout
    assert "slower than torch" in outcome.stdout
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("users-bench-cpu-")
    content = json.loads(path.read_text())
    assert [case["name"] for case in content["cases"]] == [str(SMALL)]
    assert content["command"] == "rnnc bench --users --repeat 3 --device cpu"
    assert content["cases"][0]["times"]["float32"] > 0


def test_the_command_goes_on_where_it_was_cut(tmp_path, monkeypatch):
    other = Case("gru", 4, 2, 5)
    monkeypatch.setattr(users_cases, "_CPU", (SMALL, other))
    path = tmp_path / "users.json"
    words = ["bench", "--users", "--device", "cpu", "--repeat", "3", "--json", str(path)]
    cut = CliRunner().invoke(app, [*words, "--limit", "0"])
    assert cut.exit_code == 0, cut.output
    assert "2 of 2 cases did not run, 2 of them for the time limit" in cut.stdout
    first = CliRunner().invoke(app, [*words, "--cases", "2"])
    assert first.exit_code == 0, first.output
    before = json.loads(path.read_text())["cases"]
    assert [case["name"] for case in before] == [str(other)]
    second = CliRunner().invoke(app, words)
    after = json.loads(path.read_text())["cases"]
    assert after[0] == before[0]
    assert [case["name"] for case in after] == [str(other), str(SMALL)]
    assert str(other) in second.stdout


def test_the_command_refuses_options_of_rows():
    outcome = CliRunner().invoke(app, ["bench", "--users", "--rows", "2"])
    assert outcome.exit_code == 1
    assert "--users and --rows" in outcome.output
