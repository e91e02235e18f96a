"""`tables/write.py`: the pages show the figures of the files, or say that they are not measured."""

from __future__ import annotations

import json

import pytest
from rnnc.bench.modules.cases import Case
from rnnc.bench.modules.results import ModuleResult, Side


@pytest.fixture
def tables(script):
    return script("tables/write")


def test_the_pages_are_as_their_files(tables):
    for page in tables.PAGES:
        text = page.read_text()
        assert tables.filled(text) == text, (
            f"python benchmarks/tables/write.py writes {page.name} anew"
        )
        assert "<!-- figures: " in text


def test_what_is_not_there_is_not_measured(tables, tmp_path):
    for name in tables.TABLES:
        page = f"a\n<!-- figures: {name} -->\nold\n<!-- end -->\nb\n"
        new = tables.filled(page, tmp_path)
        assert new.splitlines()[2].startswith("Not measured yet: `")
        assert "old" not in new
        assert tables.filled(new, tmp_path) == new


def contender(name, variant, forward, both, dtype="bfloat16", **more):
    return {
        "name": name,
        "variant": variant,
        "dtype": dtype,
        "note": "",
        "forward": {"median": forward},
        "forward_backward": {"median": both},
        "nanoseconds_a_step": {"forward": 1000.0, "backward": 2000.0},
        "planned_nanoseconds_a_step": {"forward": 900, "backward": 2100},
        **more,
    }


def write(folder, name, date, method, rows):
    machine = {"device": "NVIDIA H200", "torch": "2.11"}
    content = {"date": date, "command": f"rnnc {date}", "machine": machine, "method": method}
    (folder / name).write_text(json.dumps(content | {"rows": rows}))


def test_rows_are_the_newest_and_auto_s(tables, tmp_path):
    sizes = {"cell": "lstm", "heads": 1, "head_dim": 768, "batch": 16, "steps": 1024}
    row = sizes | {"number": 7, "target": [1.5, 4.2], "flashrnn": [5.0, 13.2]}
    row["contenders"] = [
        contender("rnnc auto", "auto", 1.1, 3.1, runs_as="grid"),
        contender("rnnc grid", "grid", 1.0, 3.0),
        contender("rnnc grid", "grid", 0.5, 0.6, "float16"),
        contender("nn.LSTM", None, 11.0, 26.0),
        contender("nn.LSTM", None, 2.3, 6.9, "float16"),
    ]
    old = row | {"contenders": row["contenders"][1:]}
    write(tmp_path, "cuda-a-queued.json", "2026-11-21", "each run behind queued work", [old])
    write(tmp_path, "cuda-b-queued.json", "2026-11-22", "each run behind queued work", [row])
    write(tmp_path, "cuda-c.json", "2026-11-23", "from an idle device", [old])
    text = tables.rows(tmp_path)
    line = "| 7, lstm, 1 x 768, 16 | grid | 1.1 / 3.1 | 1.5 / 4.2 | 1.00 / 2.00 | 0.90 / 2.10 |"
    assert f"{line} 2.3 / 6.9 | 5 / 13.2 |" in text
    assert "rnnc 2026-11-22" in text
    assert "Not in that run: rows 1, 2, 3, 4, 5, 6, 8, 9" in text
    assert "| lstm, 1 x 768 | 3.1 | 6.9 | 13.2 |" in tables.landing(tmp_path)


def test_errors_and_shares_are_read(tables, tmp_path):
    machine = {"device": "NVIDIA H200", "torch": "2.11"}
    head = {"date": "2026-11-22", "command": "python x", "machine": machine}
    curves = [
        {"name": "rnnc grid", "over_all": 0.0017},
        {"name": "rnnc block", "failure": "no plan"},
        {"name": "eager torch loop", "over_all": 0.005},
    ]
    case = {"cell": "lstm", "heads": 1, "head_dim": 768, "batch": 16, "dtype": "bfloat16"}
    content = head | {"cases": [case | {"curves": curves}]}
    (tmp_path / "error-over-time-h200-x.json").write_text(json.dumps(content))
    text = tables.error(tmp_path)
    assert "| lstm, 1 x 768, 16, bfloat16 | grid | 1.7e-03 | 5.0e-03 |" in text
    assert "(../benchmarks/results/error-over-time-h200-x.png)" in text

    shares = {"exchange": 0.7, "product": 0.2, "pointwise": 0.1}
    row = {
        "variant": "grid",
        "us": {"forward": 1.37},
        "shares": {"forward": shares},
        "model_ns": {"forward": {"exchange": 60, "product": 30, "pointwise": 10}},
        "ncu": {"forward": {"stalls": {"long_scoreboard": 0.5, "barrier": 0.25}}},
    }
    content = head | {"rows": {"7": row}, "ncu_failure": None}
    (tmp_path / "roofline-h200-x.json").write_text(json.dumps(content))
    wanted = "| 7 | grid | forward | 1.37 | 70 (60) | 20 (30) | 10 (10) | long_scoreboard 50 %, "
    assert wanted in tables.roofline(tmp_path)


def test_users_cases_and_plans_are_read(tables, tmp_path):
    machine = {"device": "NVIDIA H200", "torch": "2.11"}
    head = {"date": "2026-11-22", "command": "rnnc bench --users", "machine": machine}

    def case(module, ours, torchs, mode="training", **more):
        sides = {"rnnc": Side(ours, ours), "float32": Side(torchs, torchs, 0.1, 9)}
        return ModuleResult(Case(module, 4, 2, mode=mode), sides | more)

    stepper = {"rnnc, stepper": Side(0.012)}
    cases = [case("lstm", 1, 4), case("elman", 2, 1), case("gru", 0.05, 0.06, "step", **stepper)]
    late = ModuleResult(Case("lstm", 8, 2), failures={"rnnc": "the time limit was reached"})
    records = [each.record() for each in (*cases, late)]
    (tmp_path / "users-cuda-a.json").write_text(json.dumps(head | {"cases": records}))
    (tmp_path / "users-cuda-b.json").write_text(json.dumps(head | {"cases": records[:1]}))
    text = tables.TABLES["users"](tmp_path)
    assert f"- worst case: 0.50 times ({cases[1].case})" in text
    assert "- slower than torch: 1 of 3 cases by wall-clock" in text
    assert "- 1 of 4 cases did not run, 1 of them for the time limit" in text
    names = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert names[1:] == [f"| {cases[place].case}" for place in (1, 2, 0)]
    assert f"- rnn.stepper, {cases[2].case}: 0.012 / 0.06 ms, 5.00 times" in text

    def tiling(kind, took, estimate, sizes):
        return {"kind": kind, "took": took, "estimate": estimate, "sizes": sizes, "failure": ""}

    summary = {
        "geometric mean of auto / best": 1.02,
        "kernels": 2,
        "worst": 1.25,
        "worst case": "LSTM a, forward",
        "above 1.1": 1,
        "median error of the estimate": 0.11,
    }
    kernel = {"case": "LSTM a", "direction": "forward", "chosen": 0, "steps": 5}
    own = "one block per head and 4 batch rows; 8 warps, 255 registers per thread (96 hold R)"
    other = "blocks share a head and 16 batch rows; 2 blocks of 32 units, clusters of 2 share K"
    kernel["tilings"] = [tiling("block", 0.5, 0.45, own), tiling("grid", 0.4, 0.6, other)]
    failed = kernel | {"case": "RNN b", "tilings": [tiling("block", None, 0.5, own)]}
    content = head | {"summary": summary, "kernels": [failed, kernel]}
    (tmp_path / "plans-h200.json").write_text(json.dumps(content))
    text = tables.TABLES["plans"](tmp_path)
    assert "takes 1.020 times as long" in text
    assert "The median error of the estimate is 11 %." in text
    assert "1 are more than 10 % slower than the fastest." in text
    fastest = "grid: 16 batch rows, 2 blocks of 32 units, clusters of 2 | 0.4 (0.6) | 1.25 |"
    assert f"| LSTM a, forward | block: 4 batch rows, 8 warps | 0.5 (0.45) | {fastest}" in text
    assert "RNN b" not in text


def test_language_models_are_by_comparison_and_perplexity(tables, tmp_path):
    run = {
        "label": "rnnc LSTM",
        "size": "25m",
        "context": 1024,
        "batch": 64,
        "by": "tokens",
        "parameters": 24_800_000,
        "tokens": 40_000_000,
        "passes": 0.75,
        "seconds": 44.4,
        "tokens_per_second": 900_000.0,
        "memory": 20_000_000_000,
        "complete": True,
        "perplexity": 9.876,
    }
    better = run | {"label": "Transformer", "perplexity": 8.5, "by": "time"}
    worse = run | {"label": "nn.LSTM", "perplexity": None, "complete": False}
    speed = {"size": "25m", "context": 8192, "batch": 16, "compiled": False, "memory": None}
    rows = [
        speed | {"model": "lstm", "tokens_per_second": 9e5},
        speed | {"model": "transformer", "tokens_per_second": 6e5},
        speed | {"model": "nn-lstm", "failure": "out of memory"},
    ]
    alone = {"width": 512, "dtype": "float16", "batch": 16, "steps": 1024}
    recurrences = [alone | {"model": "lstm", "ms": 0.8}, alone | {"model": "nn-lstm", "ms": 9.6}]
    split = {"bytes": 2e8, "packages": {"a 1": 2e8}}
    content = {
        "date": "2026-11-23",
        "command": "python examples/language_model.py report",
        "machine": {"device": "NVIDIA H200", "torch": "2.11"},
        "corpus": {"digest": "abcdef" * 4, "train": split, "validation": split},
        "runs": [worse, better, run],
        "speed": {"rows": rows, "recurrences": recurrences},
    }
    (tmp_path / "language-model-h200.json").write_text(json.dumps(content))
    (tmp_path / "language-model-h200-speed.png").write_bytes(b"")
    text = tables.TABLES["language_model"](tmp_path)
    lines = text.splitlines()
    first = "| rnnc LSTM | 25m | tokens | 1024 x 64 | 24.8 M | 40.0 M | 0.75 | 44 | 900 k | 20.0 |"
    assert lines.index(f"{first} 9.88 |") < lines.index("At equal wall-clock:")
    assert "| 44, cut | 900 k | 20.0 | not finite |" in text
    assert "| 25m, 8192 x 16 | lstm | 900.0 k | 150 % | - |" in text
    assert "| nn-lstm | did not run: out of memory |" in text
    assert "| 512, float16, 16, 1024 | 0.8 | 9.6 | 12.0 |" in text
    assert "(../benchmarks/results/language-model-h200-speed.png)" in text
    assert "Text abcdefabcdef: 200 MB of 1 packages" in text
    (tmp_path / "language-model-h200.json").write_text(json.dumps(content | {"corpus": None}))
    assert "Perplexities are not measured yet" in tables.TABLES["language_model"](tmp_path)
