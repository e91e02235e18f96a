"""Writes the other packages' times that `rnnc report` draws: api/report/data/peers.json.

    python benchmarks/tables/report_peers.py

All of them are in `results/` and `anchors.json`; the newest time of a package, a cell and a size
counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
FILE = BENCHMARKS.parent / "api" / "report" / "data" / "peers.json"
STEPS = 1024
# A file of results, and the releases of the packages that it measured.
RUNS = {
    "results/cuda-h200-2026-11-21-queued.json": None,
    "results/cuda-h200-2026-11-21-flashrnn.json": "FlashRNN 1.0.8",
}
SWEEPS = "results/sweeps-h200-2026-11-21.json"
INPUT_GEMM = "with the product of the input and its weights"


def peers() -> dict[str, Any]:
    """The content of the file."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in (*_anchors(), *_sweeps(), *_runs()):  # the newest last
        key = (*(entry[n] for n in ("cell", "dtype", "batch", "heads", "head_dim")), entry["key"])
        found[key] = entry
    entries = [{k: v for k, v in entry.items() if k != "key"} for entry in found.values()]
    sources = list(dict.fromkeys(entry["source"] for entry in entries))
    return {
        "milliseconds": "of a forward in training, and of forward and backward",
        "sources": sources,
        "peers": [entry | {"source": sources.index(entry["source"])} for entry in entries],
    }


def _entry(row: dict[str, Any], name: str, dtype: str, times: Any, note: str) -> dict[str, Any]:
    forward, both = (float(f"{t:.3g}") for t in times)
    sizes = {n: row[n] for n in ("batch", "heads", "head_dim")} | {"steps": STEPS}
    took = {"forward_ms": forward, "both_ms": both, "note": note, "key": name.split()[0]}
    return {"name": name, "cell": row["cell"], "dtype": dtype, **sizes, **took}


def _anchors() -> Iterator[dict[str, Any]]:
    anchors = json.loads((BENCHMARKS / "anchors.json").read_text("utf-8"))
    sizes = json.loads((BENCHMARKS / next(iter(RUNS))).read_text("utf-8"))["rows"]
    source = f"{anchors['measured_on']}: benchmarks/anchors.json"
    packages = (("flashrnn", "FlashRNN 1.0.5", "bfloat16"), ("cudnn", "cuDNN", "float16"))
    for size in sizes:
        row = anchors["rows"][str(size["number"])]
        for key, name, dtype in packages:
            # cuDNN has no heads: where the row has several, it was measured with one.
            if key in row and (key == "flashrnn" or size["heads"] == 1):
                note = INPUT_GEMM if key == "cudnn" else _note(row, "FlashRNN")
                yield _entry(size, name, dtype, row[key], note) | {"source": source}


def _note(row: dict[str, Any], package: str) -> str:
    parts = [part for part in row.get("note", "").split("; ") if part.startswith(package)]
    return "; ".join(part.partition(": ")[2] for part in parts)


def _sweeps() -> Iterator[dict[str, Any]]:
    content = json.loads((BENCHMARKS / SWEEPS).read_text("utf-8"))
    for point in content["points"].values():
        if point["steps"] == STEPS and point["heads"] == 1 and "us" in point.get("nn", {}):
            us = point["nn"]["us"]
            times = [us[phase] * STEPS / 1000 for phase in ("forward", "forward_backward")]
            row = point | {"cell": "lstm"}
            yield (
                _entry(row, "cuDNN", point["nn"]["dtype"], times, INPUT_GEMM)
                | {"source": _source(content, SWEEPS)}
            )


def _runs() -> Iterator[dict[str, Any]]:
    for path, release in RUNS.items():
        content = json.loads((BENCHMARKS / path).read_text("utf-8"))
        for row in content["rows"]:
            for each in row["contenders"]:
                both = each["forward"] and each["forward_backward"]
                if each["ours"] or not both or row["steps"] != STEPS:
                    continue
                if each["note"] or (release is None) == each["name"].startswith("FlashRNN"):
                    continue
                if each["name"] not in ("FlashRNN cuda_fused", "nn.LSTM", "nn.GRU", "nn.RNN"):
                    continue
                times = [each[p]["median"] for p in ("forward", "forward_backward")]
                name, note = (release, "") if release else ("cuDNN", INPUT_GEMM)
                yield (
                    _entry(row, name, each["dtype"], times, note)
                    | {"source": _source(content, path)}
                )


def _source(content: dict[str, Any], path: str) -> str:
    on = content["machine"]
    machine = f"one {on['device']}, torch {on['torch']}, {content['date']}"
    return f"{machine}: `{content['command']}`, benchmarks/{path}"


def main() -> None:
    content = peers()
    entries = ",\n".join("  " + json.dumps(entry) for entry in content["peers"])
    head = json.dumps({k: v for k, v in content.items() if k != "peers"}, indent=1)[:-2]
    FILE.write_text(f'{head},\n "peers": [\n{entries}\n ]\n}}\n', "utf-8")


if __name__ == "__main__":
    main()
