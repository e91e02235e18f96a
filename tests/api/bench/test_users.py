"""`rnnc bench --users`: its cases, its clock, its table and its file."""

import json
import math
import time

import pytest
import torch
from rnnc.bench.rows import BenchError
from rnnc.bench.users import contenders
from rnnc.bench.users.cases import UserCase, cases_for
from rnnc.bench.users.measure import Side, UserResult, measure_case
from rnnc.bench.users.text import losses_first, summary, users_table
from rnnc.cli.app import app
from rnnc.cli.bench import users
from typer.testing import CliRunner

SMALL = UserCase("gru", 4, 2, 3)


def result(ours: float, torchs: float, case: UserCase = SMALL) -> UserResult:
    side = Side(torchs, None, None, 3)
    return UserResult(case, Side(ours, None, None, 3), {"float32": side})


def test_cases_differ_and_cover_what_they_should():
    cuda, cpu = cases_for("cuda"), cases_for("cpu")
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
        UserCase("lstm", 4, 2, 3, mode="inference", layers=2, batch_first=True, inputs=5),
        UserCase("elman", 4, 2, mode="step"),
        UserCase("lstm", 4, 2, mode="step training"),
    ],
    ids=str,
)
def test_both_sides_are_timed(case):
    found = measure_case(case, "cpu", 3, math.inf)
    assert found.failure == ""
    assert found.ours.runs == found.peer.runs == 3
    assert found.ours.wall > 0
    assert found.times == found.peer.wall / found.ours.wall
    assert found.device_times is None


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


def test_a_bfloat16_case_meets_torch_in_two_dtypes():
    case = UserCase("gru", 4, 2, 3, "bfloat16", "inference")
    found = measure_case(case, "cpu", 3, math.inf)
    assert set(found.peers) == {"bfloat16", "float16"}


def test_what_does_not_run_is_a_line_with_its_reason():
    both = UserCase("gru", 4, 2, 3, both=True)
    with pytest.raises(BenchError):
        contenders.ours(both, "cpu")
    found = measure_case(both, "cpu", 3, math.inf)
    assert "both directions" in found.failure
    assert found.ours is None
    assert found.peer is not None
    late = measure_case(SMALL, "cpu", 3, time.monotonic() - 1)
    assert late.failure == "the time limit was reached"
    text = summary([found, late, result(1, 2)])
    assert text.startswith("2 of 3 cases did not run")


def test_losses_come_first_and_are_counted():
    slow, fast = result(2, 1, UserCase("gru", 4, 2, 5)), result(1, 4)
    assert losses_first([fast, slow]) == [slow, fast]
    assert summary([fast, slow]).splitlines() == [
        "geometric mean: 1.41 times torch by wall-clock",
        f"worst case: 0.50 times ({slow.case})",
        "slower than torch: 1 of 2 cases",
    ]
    table = users_table([fast, slow], "cpu")
    assert list(table.columns[0].cells) == [str(slow.case), str(fast.case)]


def test_the_command_prints_and_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(users, "cases_for", lambda device: (SMALL,))
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
    assert content["cases"][0]["times"] > 0


def test_the_command_refuses_options_of_rows():
    outcome = CliRunner().invoke(app, ["bench", "--users", "--rows", "2"])
    assert outcome.exit_code == 1
    assert "--users and --rows" in outcome.output
