import importlib.util
import itertools
import json
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        spec = importlib.util.spec_from_file_location(
            "example_state_tracking", FOLDER / "state_tracking.py"
        )
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    for name in (spec.name, "parity", "tracking_tasks", "tracking_results"):
        del sys.modules[name]


def drawn(example, name, count=40, length=30):
    task = example.TASKS[name]
    tokens, labels = task.strings(count, length, torch.Generator().manual_seed(0))
    assert tokens.shape == labels.shape == (count, length)
    assert 0 <= tokens.min() < tokens.max() == task.tokens - 1
    assert labels.max() == task.classes - 1
    return zip(tokens.tolist(), labels.tolist(), strict=True)


def test_arithmetic_is_pythons(example):
    for tokens, labels in drawn(example, "arithmetic"):
        text = "".join(str(token) if token < 5 else "+-*"[token - 5] for token in tokens)
        for t, label in enumerate(labels):
            assert label == (-100 if t % 2 else eval(text[: t + 1]) % 5)


def test_cycle_counts_moves(example):
    for tokens, labels in drawn(example, "cycle"):
        assert labels == [sum(move - 1 for move in tokens[: t + 1]) % 5 for t in range(30)]


def test_s5_multiplies_permutations(example):
    group = list(itertools.permutations(range(5)))
    for tokens, labels in drawn(example, "s5"):
        product = tuple(range(5))
        for token, label in zip(tokens, labels, strict=True):
            product = tuple(product[place] for place in group[token])
            assert group[label] == product


def test_recall_asks_for_keys_seen_before(example):
    asked = 0
    for tokens, labels in drawn(example, "recall"):
        table = {}
        for t in range(0, 30, 2):
            key, value = tokens[t], tokens[t + 1] - 16
            assert labels[t] == table.get(key, -100)
            assert table.setdefault(key, value) == value
            assert labels[t + 1] == -100
            asked += labels[t] >= 0
    assert asked > 100


def test_chance_is_that_of_the_most_frequent_label(example):
    chance = {name: task.chance() for name, task in example.TASKS.items()}
    expected = {"parity": 1 / 2, "cycle": 1 / 5, "s5": 1 / 120, "recall": 1 / 16}
    assert {n: chance[n] for n in expected} == pytest.approx(expected, rel=0.1)
    assert 0.2 < chance["arithmetic"] < 0.3  # products make 0 more frequent


def test_the_rate_that_learns_first_is_taken(example):
    tried = [
        {"rate": 0.1, "steps": 400, "curve": {"50": 0.5, "100": 1.0}},  # solved, and stopped
        {"rate": 0.2, "steps": 400, "curve": {str(s): 0.9 for s in range(50, 401, 50)}},
        {"rate": 0.3, "steps": 400, "curve": {str(s): 0.3 for s in range(50, 401, 50)}},
    ]
    assert example.best_rate(tried) == 0.1
    assert example.best_rate(tried[1:]) == 0.2


def test_a_run_goes_on_where_it_stopped(example, tmp_path, monkeypatch, capsys):
    for module in (example, example.parity, sys.modules["tracking_results"]):
        monkeypatch.setattr(module, "LONGEST", 44)
    monkeypatch.setattr(example, "RATES", (1e-3, 1e-2))
    how = {"tasks": "parity,recall", "models": "elman", "steps": 2, "out": tmp_path}
    with pytest.raises(example.typer.Exit):  # two steps do not learn parity
        example.main(**how, seeds=2)
    shown = capsys.readouterr().out
    assert "parity: below 0.99 on 40 to 44: elman" in shown.replace("\n", " ")
    assert len(list((tmp_path / "runs").glob("*.json"))) == 4
    found = json.loads((tmp_path / "state_tracking.json").read_text())
    elman = found["results"]["recall"]["elman"]
    assert [run["seed"] for run in elman["runs"]] == [0, 1]
    assert len(elman["by_length"]) == 44
    assert elman["by_length"][1] is None  # a value, after which nothing is asked
    assert all(0 <= run["extrapolated"] <= 1 for run in elman["runs"])
    assert str(tmp_path) not in json.dumps(found)
    assert (tmp_path / "state_tracking.png").read_bytes().startswith(b"\x89PNG")

    trained = []
    one = example.train

    def train(run, *others):
        trained.append((run.model, run.seed, run.rate))
        return one(run, *others)

    monkeypatch.setattr(example, "train", train)
    next((tmp_path / "runs").glob("parity-elman-*-1-2.json")).unlink()
    with pytest.raises(example.typer.Exit):
        example.main(**how, seeds=2)
    assert trained == [("elman", 1, example.USUAL_RATE)]
    with pytest.raises(example.typer.Exit):
        example.main(**how, seeds=2, minutes=0)  # nothing is left to train
    again = json.loads((tmp_path / "state_tracking.json").read_text())
    assert again["results"]["recall"] == found["results"]["recall"]


def test_no_run_starts_too_late(example, tmp_path, capsys):
    example.main(tasks="cycle", models="elman", steps=2, minutes=0, out=tmp_path)
    assert not list(tmp_path.glob("runs/*"))
    assert "unfinished: cycle" in capsys.readouterr().out


def test_missing_packages_and_unknown_names(example, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "xlstm", None)
    assert not example.available("mlstm")
    assert capsys.readouterr().out.split()[-3:] == ["pip", "install", "xlstm"]
    assert example.available("gru")
    with pytest.raises(SystemExit, match="unknown: lstmm; there are elman, gru"):
        example.main(models="lstmm")
    with pytest.raises(SystemExit, match="unknown: sort; there are parity"):
        example.main(tasks="parity,sort")
