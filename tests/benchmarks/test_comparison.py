"""The tables and the picture of all peers, and how Haste's build flags are changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rnnc.bench.modules.cases import Case
from rnnc.bench.modules.results import ModuleResult, Side

MACHINE = {"device": "NVIDIA H200", "torch": "2.11"}


@pytest.fixture
def comparison(script):
    return script("tables/comparison")


def contender(name, dtype, forward, both, terms="wx ready", note="", **more):
    own = {"name": name, "dtype": dtype, "terms": terms, "note": note, "failures": {}}
    own |= {"forward": forward, "forward_backward": both, "inference": forward}
    return own | {"peak_mib": 12.4, "first_call_seconds": 0.5, "runs_as": ""} | more


def case(cell, heads, head_dim, batch, steps, dtype, *contenders, **left_out):
    name = f"{cell}, {heads} x {head_dim}, batch {batch}, {steps} steps, {dtype}"
    sizes = {"cell": cell, "heads": heads, "head_dim": head_dim, "batch": batch, "steps": steps}
    rounding = "ieee" if "Haste" in str(contenders) else "tf32"
    return {
        "name": name,
        **sizes,
        "float32": rounding,
        "contenders": list(contenders),
        "left_out": left_out,
    }


ANOTHER = "another function: attention"
GEMM = "with input GEMM"
CASES = [
    case(
        *("lstm", 12, 64, 16, 1024, "bfloat16"),
        contender("rnnc auto", "bfloat16", 0.3, 0.8),
        contender("rnnc.RNN", "bfloat16", 0.4, 1.0, GEMM),
        contender("nn.LSTM", "float16", 1.2, 2.9, GEMM, "one head of 64 only"),
        contender("torch SDPA", "bfloat16", 0.1, 0.4, note=ANOTHER),
    ),
    case(
        *("lstm", 1, 768, 16, 1024, "bfloat16"),
        contender("rnnc auto", "bfloat16", 1.4, 3.5),
        contender("rnnc.RNN", "bfloat16", 1.5, 3.8, GEMM),
        contender("nn.LSTM", "float16", 2.2, 6.9, GEMM),
        contender("torch SDPA", "bfloat16", 0.1, 7.0, note=ANOTHER),
    ),
    case(
        *("lstm", 1, 512, 64, 256, "float32"),
        contender("rnnc auto", "float32", 4.3, 10.7),
        contender("rnnc.RNN", "float32", 4.5, 11.0, GEMM),
        contender("nn.LSTM", "float32", 2.9, 8.8, GEMM),
        contender("Haste", "float32", 6.0, None, GEMM),
        TorchRL="no module named torchrl",
    ),
]
CHECK = {"cell": "gru", "name": "Haste", "dtype": "float32", "sizes": [256, 16, 1024]}
CHECKS = [
    CHECK | {"errors": {"h": 1e-3, "d_x": 2e-3, "d_b": 5e-4}, "over_time": [1e-4, 1e-3]},
    CHECK | {"name": "TorchRL", "errors": {}, "over_time": [], "failure": "not there"},
]
CHECKS[0]["failure"] = ""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    content = {"date": "2026-11-24", "command": "rnnc bench --peers", "machine": MACHINE}
    content |= {"checks": CHECKS, "cases": CASES}
    (tmp_path / "comparison-cuda-h200.json").write_text(json.dumps(content))
    return tmp_path


def test_losses_come_first_and_are_of_the_same_terms(comparison, results):
    text = comparison.losses(results)
    # Of three pairs that compute the same, cuDNN in float32 is faster; one head alone is no pair.
    assert "rnnc is slower in 1 of 2 pairs" in text
    lost = "| lstm, 1 x 512, B 64, T 256, exact | nn.LSTM, float32 | 2.9 / 8.8 | 4.5 / 11 |"
    assert f"{lost} 0.80 times |" in text
    worst = "| torch SDPA | 1 of 2 | lstm, 12 x 64, B 16, T 1024 | 0.1 / 0.4 | 0.3 / 0.8 |"
    assert f"{worst} 0.50 times |" in text
    assert "NVIDIA H200, 2026-11-24; [commands](#runs)." in text
    runs = comparison.runs(results)
    assert "`benchmarks/results/comparison-cuda-h200.json`: NVIDIA H200, torch 2.11, 2026" in runs
    assert "- `rnnc bench --peers`" in runs


def test_tables_over_one_size_have_its_cases(comparison, results):
    text = comparison.over_head_dim(results)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[0].split(" | ")[1:] == ["rnnc", "rnnc.RNN +", "cuDNN, float16 +", "SDPA * |"]
    assert rows[1].startswith("| 12 x 64, B 16, T 1024 | 0.3 / 0.8 | 0.4 / 1 | 1.2 / 2.9 (one h")
    assert len(rows) == 3
    assert "1 x 512" not in comparison.over_batch(results)
    text = comparison.single_precision(results)
    assert (
        "| lstm, 1 x 512, B 64, T 256, exact | nn.LSTM, float32 + | 2.9 | 8.8 | 2.9 | 12 | 0.5 |"
        in text
    )
    assert "Haste, float32 + | 6 | failed | 6 |" in text
    assert "TorchRL: no module named torchrl" in text
    assert comparison.linear(results).startswith("Not measured yet")


def test_flashrnn_s_times_may_be_of_earlier_runs(comparison, results):
    """Of release 1.0.5 beside a row of the table; of 1.0.8, which is newer, where both are."""
    row = {"cell": "lstm", "batch": 16, "steps": 1024}
    rows = [
        row | {"heads": 12, "head_dim": 64, "flashrnn": [2.94, 7.86], "contenders": []},
        row | {"heads": 1, "head_dim": 768, "flashrnn": [5.0, 13.2], "contenders": []},
    ]
    head = {"date": "2026-11-21", "command": "rnnc bench", "machine": MACHINE}
    head |= {"anchors_measured_on": "one H200, 2026-11-20"}
    (results / "cuda-h200-queued.json").write_text(json.dumps(head | {"rows": rows}))
    newer = contender("FlashRNN cuda_fused", "bfloat16", {"median": 2.79}, {"median": 7.49})
    rows = [rows[0] | {"flashrnn": None, "contenders": [newer]}]
    (results / "cuda-h200-flashrnn.json").write_text(json.dumps(head | {"rows": rows}))
    text = comparison.over_head_dim(results)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert "| FlashRNN |" in lines[0]
    assert "| 2.79 / 7.49 |" in lines[1]
    assert "| 5 / 13.2 |" in lines[2]
    runs = comparison.runs(results)
    assert "- 1.0.8: NVIDIA H200, torch 2.11, 2026-11-21: `rnnc bench`" in runs
    assert "- 1.0.5: `benchmarks/anchors.json`, one H200, 2026-11-20, whose" in runs
    assert "in 1 of 4 pairs" in comparison.losses(results)


def test_who_did_not_run_is_said_with_the_reason(comparison, results):
    text = comparison.unmeasured(results)
    assert "| TorchRL | 1 | lstm, 1 x 512, B 64, T 256, exact | no module named torchrl |" in text
    assert "Haste was built" not in text


def test_errors_name_the_worst_gradient(comparison, results):
    text = comparison.accuracy(results)
    assert "| gru, float32 | Haste | 1.0e-03 | 1.0e-04 | 1.0e-03 | 2.0e-03 (d_x) |" in text
    assert "TorchRL did not run: not there." in text


def test_losses_of_modules_are_read(comparison, tmp_path):
    head = {"date": "2026-11-24", "command": "rnnc bench --users", "machine": MACHINE}
    sides = {"float32": Side(1.0), "float16": Side(0.5)}
    cases = [Case("gru", 4, 2, 3, "bfloat16"), Case("lstm", 4, 2, 3, "bfloat16")]
    users = [
        ModuleResult(case, sides | {"rnnc": Side(ours)}).record()
        for case, ours in zip(cases, (0.75, 0.25), strict=True)
    ]
    (tmp_path / "users-cuda-x.json").write_text(json.dumps(head | {"cases": users}))
    text = comparison.module_losses(tmp_path)
    assert f"| {cases[0]} | torch, float16 | 0.5 | 0.75 | 0.67 times |" in text
    assert str(cases[1]) not in text
    assert "Not measured yet: `rnnc bench --ragged`." in text


def test_the_largest_heads_are_read(comparison):
    text = comparison.largest(Path(__file__).parents[2] / "benchmarks" / "results")
    assert text.startswith("| GPU | SMs | block | cluster | grid |")
    assert "| A100 (sm_80) | 108 | 128 | - |" in text


def test_the_picture_has_the_names_of_those_that_ran(script, comparison, results):
    pytest.importorskip("matplotlib")
    plot = script("comparison_plot")
    path = results / "comparison-cuda-h200.json"
    assert comparison.picture(results).startswith("Not measured yet")
    plot.draw(json.loads(path.read_text()), path.with_suffix(".png"))
    assert path.with_suffix(".png").stat().st_size > 10_000
    assert comparison.picture(results).endswith("(../benchmarks/results/comparison-cuda-h200.png)")


def test_hastes_flags_are_all_that_changes(script):
    haste = script("peers/haste")
    old = (
        f"A := 1\nNVCC_FLAGS := -std=c++11 -x cu -Xcompiler -fPIC\nGPU := {haste._GPUS}\n-std=c++11"
    )
    new = haste.patched(old, "90")
    assert new.splitlines() == [
        "A := 1",
        "NVCC_FLAGS := -std=c++17 -x cu -Xcompiler -fPIC",
        "GPU := -gencode arch=compute_90,code=sm_90",
        "-std=c++11",
    ]
    assert "+NVCC_FLAGS := -std=c++17" in haste.changes(old, new)
    with pytest.raises(SystemExit, match="another commit"):
        haste.patched("all:", "90")
