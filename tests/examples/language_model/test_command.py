import csv
import importlib.util
import json
import math
import random
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

PATH = Path(__file__).parents[3] / "examples" / "language_model.py"
SMALL = "--size tiny --context 32 --batch 4 --threads 1".split()


@pytest.fixture(scope="module")
def command(part):
    part("language_model")
    spec = importlib.util.spec_from_file_location("example_language_model", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(0)
    names = [f"name_{i}" for i in range(30)]
    for number in range(40):
        calls = (f"{draw.choice(names)} = {draw.choice(names)}({number})" for _ in range(40))
        (folder / f"{number}.py").write_text("\n".join(calls))
    return folder


@pytest.fixture
def call(command, data, tmp_path):
    def invoke(*words, out="out", fails=None):
        places = "--data", data, "--work", tmp_path / "work", "--out", tmp_path / out
        if words[0] == "speed":
            places = places[4:]
        result = CliRunner().invoke(command.app, [str(word) for word in [*words, *places]])
        if fails:
            assert result.exit_code == 1
            assert fails in str(result.exception)
        elif result.exception and result.exit_code != 3:
            raise result.exception
        return result

    return invoke


def weights(path):
    return torch.load(path)["model"]


def test_a_resumed_run_is_bitwise_an_uninterrupted_one(call, tmp_path):
    options = "train", *SMALL, "--model", "slstm", "--steps", "12"
    checkpoint = tmp_path / "work/checkpoints/tiny-slstm-run-32x4.pt"
    call(*options)
    once, state = weights(checkpoint), torch.load(checkpoint)["optimizer"]
    shown = call(*options, "--until", "5", out="again")
    assert "Stopped at step 5 of 12" in shown.output
    early = weights(checkpoint)
    call(*options, "--resume", out="again")
    for name, weight in weights(checkpoint).items():
        assert torch.equal(weight, once[name]), name
        assert not torch.equal(weight, early[name]), name
    torch.testing.assert_close(torch.load(checkpoint)["optimizer"], state, rtol=0, atol=0)
    records = [tmp_path / out / "runs/tiny-slstm-run-32x4" for out in ("out", "again")]
    told = [json.loads(path.with_suffix(".json").read_text()) for path in records]
    assert told[0]["perplexity"] == told[1]["perplexity"]
    rows = [list(csv.DictReader(path.with_suffix(".csv").open())) for path in records]
    assert [r["loss"] for r in rows[0]] == [r["loss"] for r in rows[1]]
    assert len(rows[0]) == 12
    call(*options[:-1], "13", "--resume", fails="this run is model slstm")


def test_comparisons_leave_small_files_without_names_of_machines(
    call, command, tmp_path, monkeypatch
):
    monkeypatch.setattr(command.speed, "ALONE", (2, 16))
    names = "--model", "lstm", "--model", "transformer"
    call("compare", *SMALL, *names, "--tokens", 128 * 6)
    told = call("compare", *SMALL, *names[2:], "--by", "time", "--seconds", 0.3)
    assert "perplexity" in told.output
    call("speed", *SMALL, "--model", "lstm", "--seconds", 0.1)
    call("report", "--size", "tiny")
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".csv", ".png"}
    assert all(path.stat().st_size <= 200_000 for path in files)
    text = (tmp_path / "out/language_model.json").read_text()
    assert str(tmp_path) not in text
    result = json.loads(text)
    runs = {run["name"]: run for run in result["runs"]}
    for by, models in {"tokens": ("lstm", "transformer"), "time": ("transformer",)}.items():
        for model in models:
            run = runs[f"tiny-{model}-{by}-32x4"]
            assert run["perplexity"] < 256
            assert run["tokens"] == 128 * run["steps"] or not run["complete"]
            assert run["passes"] == pytest.approx(
                run["tokens"] / result["corpus"]["train"]["bytes"], rel=0.02
            )
    assert (
        runs["tiny-lstm-tokens-32x4"]["steps"] == runs["tiny-transformer-tokens-32x4"]["steps"] == 6
    )
    assert all(0 < run["seconds"] < 5 for run in runs.values() if run["by"] == "time")
    assert len(result["speed"]["rows"]) == 1
    assert {"date", "machine"} < set(result)
    again = call("compare", *SMALL, *names, "--tokens", 128 * 6)
    assert again.output.count("is there; to repeat it, remove") == 2
    assert not list((tmp_path / "work/checkpoints").iterdir())


def test_a_rate_is_chosen_and_scaled_with_the_width(call, command, tmp_path, monkeypatch):
    monkeypatch.setattr(command.comparison, "RATES", (1e-6, 2e-3))
    monkeypatch.setattr(command.comparison, "MOST_RATES", 2)
    monkeypatch.setattr(command.comparison, "steps_within", lambda *_: 6)
    call("tune", "--size", "tiny", "--model", "transformer", "--seconds", 0.5, "--threads", 1)
    tried = json.loads((tmp_path / "out/rates.json").read_text())["transformer"]
    assert tried["0.002"] < tried["1e-06"]
    rate_of = command.comparison.rate_of
    places = command.Places(tmp_path / "out", tmp_path)
    assert rate_of("transformer", "25m", places) == (2e-3, "tuned")
    assert rate_of("transformer", "120m", places) == (1e-3, "tuned")
    assert rate_of("lstm", "120m", places) == (1e-3, "default")
    assert (tmp_path / "out").exists()
    assert not (tmp_path / "out/runs").exists()


@pytest.mark.parametrize(
    ("perplexities", "expected"),
    [
        ({}, 1e-3),
        ({"0.001": 9.0, "0.004": 8.0}, 2e-3),
        ({"0.001": 9.0, "0.002": 8.0, "0.004": 8.5}, None),
        ({"0.001": 7.0, "0.002": 8.0, "0.004": None}, 5e-4),
        ({"0.001": 9.0, "0.002": 8.0, "0.004": 7.0}, 8e-3),
        ({"0.0005": 8.0, "0.001": 7.0, "0.002": 8.0, "0.004": 9.0}, None),
        ({f"{1e-3 * 2**power:g}": 9.0 + power for power in range(-3, 3)}, None),
    ],
)
def test_rates_are_tried_until_the_best_is_in_the_middle(command, perplexities, expected):
    assert command.comparison.next_rate(perplexities) == expected


def test_a_command_ends_before_its_limit(call, command, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "LIMIT", 0.0)
    told = call("compare", *SMALL, "--model", "lstm", "--seconds", 5)
    assert told.exit_code == 3
    assert "run the same command again" in " ".join(told.output.split())
    assert not (tmp_path / "out/runs").exists()


def test_an_interrupted_comparison_goes_on(call, command, tmp_path, monkeypatch):
    options = "compare", *SMALL, "--model", "lstm", "--tokens", 128 * 6
    call(*options)
    record = "runs/tiny-lstm-tokens-32x4.json"
    once = json.loads((tmp_path / "out" / record).read_text())
    advance = command.runs.Training.advance

    def interrupted(training):
        if training.step == 4:
            raise InterruptedError
        return advance(training)

    monkeypatch.setattr(command.runs, "SAVE_AFTER", 0.0)
    monkeypatch.setattr(command.runs.Training, "advance", interrupted)
    with pytest.raises(InterruptedError):
        call(*options, out="again")
    (saved,) = (tmp_path / "work/checkpoints").iterdir()
    assert torch.load(saved)["step"] == 4
    steps = []
    monkeypatch.setattr(
        command.runs.Training, "advance", lambda t: steps.append(t.step) or advance(t)
    )
    call(*options, out="again")
    assert steps == [4, 5]
    twice = json.loads((tmp_path / "again" / record).read_text())
    assert twice["perplexity"] == once["perplexity"]
    assert twice["tokens"] == once["tokens"] == 768


def test_a_text_is_read_four_times_at_most(call):
    call("train", *SMALL, "--steps", 10**6, fails="read the text more than 4 times")


def test_another_corpus_is_not_compared(call, command, tmp_path, monkeypatch):
    call("train", *SMALL, "--steps", 2)
    record = json.loads((tmp_path / "out/runs/tiny-lstm-run-32x4.json").read_text())
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(command.report, "COMMITTED", tmp_path / "results")
    file = tmp_path / "results/language-model-x.json"
    run = {"name": record["name"], "perplexity": 12.34}
    for digest, wanted in ((record["corpus"], "12.34"), ("0" * 64, "of another machine")):
        content = {"date": "2026-01-01", "corpus": {"digest": digest}, "runs": [run]}
        file.write_text(json.dumps(content))
        shown = " ".join(call("report", "--size", "tiny").output.split())
        assert wanted in shown
        assert ("12.34" in shown) == (digest == record["corpus"])


def test_runs_of_two_texts_are_not_put_together(call, tmp_path):
    call("train", *SMALL, "--steps", 2)
    path = tmp_path / "out/runs/tiny-lstm-run-32x4.json"
    record = json.loads(path.read_text()) | {"corpus": "another"}
    path.with_name("other.json").write_text(json.dumps(record))
    call("report", "--size", "tiny", fails="runs of 2 texts on 1 machines")


def test_tensorboard_is_optional(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    call("train", *SMALL, "--steps", 2, "--tensorboard", fails="pip install tensorboard")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lstm", "slstm", "transformer", "nn-lstm"])
def test_a_tiny_model_learns_in_fifteen_seconds(command, tmp_path, model):
    """On the texts of this machine's Python: the language of most of its files is Python."""
    out = tmp_path / "out"
    data = Path(json.__file__).parents[1] / "json", Path(json.__file__).parents[1] / "email"
    for number, folder in enumerate(data):
        (tmp_path / f"data/{number}").mkdir(parents=True)
        for file in folder.glob("*.py"):
            (tmp_path / f"data/{number}" / file.name).write_bytes(file.read_bytes())
    words = f"train --size tiny --model {model} --steps 150 --threads 1 --out {out}"
    words = [*words.split(), "--data", str(tmp_path / "data"), "--work", str(tmp_path / "work")]
    result = CliRunner().invoke(command.app, words)
    assert result.exit_code == 0, result.output
    told = json.loads((out / f"runs/tiny-{model}-run-128x16.json").read_text())
    assert told["perplexity"] < 16
    assert math.isfinite(told["tokens_per_second"])
