"""Writes the other packages' times that `rnnc report` draws: api/report/data/peers.json.

    python benchmarks/tables/report_peers.py

All of them are in `results/` and `anchors.json`; the newest time of a package, a cell and a size
counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from figures import source
from rnnc.bench.results import PHASES, median_of

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


class Time(NamedTuple):
    """What a package took for a row."""

    source: str  # the machine and the file
    row: dict[str, Any]  # the cell and the sizes
    name: str  # of the package, with its release if it is known
    dtype: str
    milliseconds: Iterable[float]  # of a forward, and of a forward with its backward
    note: str  # what else the times include


def peers() -> dict[str, Any]:
    """The content of the file."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for time in (*_anchors(), *_sweeps(), *_runs()):  # the newest last
        sizes = {n: time.row[n] for n in ("batch", "heads", "head_dim")}
        forward, both = (float(f"{t:.3g}") for t in time.milliseconds)
        key = (time.row["cell"], time.dtype, *sizes.values(), time.name.split()[0])
        found[key] = {"name": time.name, "cell": time.row["cell"], "dtype": time.dtype, **sizes}
        found[key] |= {"steps": STEPS, "forward_ms": forward, "both_ms": both, "note": time.note}
        found[key]["source"] = time.source
    sources = list(dict.fromkeys(entry["source"] for entry in found.values()))
    return {
        "milliseconds": "of a forward in training, and of forward and backward",
        "sources": sources,
        "peers": [e | {"source": sources.index(e["source"])} for e in found.values()],
    }


def _read(path: str) -> tuple[dict[str, Any], str]:
    """A file of results, and its machine, command and name."""
    content = json.loads((BENCHMARKS / path).read_text("utf-8"))
    return content, f"one {source(content)[:-1]}, benchmarks/{path}"


def _anchors() -> Iterator[Time]:
    anchors = json.loads((BENCHMARKS / "anchors.json").read_text("utf-8"))
    where = f"{anchors['measured_on']}: benchmarks/anchors.json"
    for row in _read(next(iter(RUNS)))[0]["rows"]:
        known = anchors["rows"][str(row["number"])]
        if "flashrnn" in known:
            parts = [each.partition(": ") for each in known.get("note", "").split("; ")]
            note = "; ".join(said for who, _, said in parts if who.startswith("FlashRNN"))
            yield Time(where, row, "FlashRNN 1.0.5", "bfloat16", known["flashrnn"], note)
        # cuDNN has no heads: where the row has several, it was measured with one.
        if "cudnn" in known and row["heads"] == 1:
            yield Time(where, row, "cuDNN", "float16", known["cudnn"], INPUT_GEMM)


def _sweeps() -> Iterator[Time]:
    content, where = _read(SWEEPS)
    for point in content["points"].values():
        nn = point.get("nn", {})
        if point["steps"] == STEPS and point["heads"] == 1 and "us" in nn:
            times = [nn["us"][phase] * STEPS / 1000 for phase in PHASES[:2]]
            yield Time(where, point | {"cell": "lstm"}, "cuDNN", nn["dtype"], times, INPUT_GEMM)


def _runs() -> Iterator[Time]:
    for path, release in RUNS.items():
        content, where = _read(path)
        wanted = ("FlashRNN cuda_fused",) if release else ("nn.LSTM", "nn.GRU", "nn.RNN")
        name, note = (release, "") if release else ("cuDNN", INPUT_GEMM)
        for row in (row for row in content["rows"] if row["steps"] == STEPS):
            for each in (c for c in row["contenders"] if c["name"] in wanted and not c["note"]):
                times = [median_of(each, phase) for phase in PHASES[:2]]
                if all(times):
                    yield Time(where, row, name, each["dtype"], times, note)


def main() -> None:
    content = peers()
    entries = ",\n".join("  " + json.dumps(entry) for entry in content["peers"])
    head = json.dumps({k: v for k, v in content.items() if k != "peers"}, indent=1)[:-2]
    FILE.write_text(f'{head},\n "peers": [\n{entries}\n ]\n}}\n', "utf-8")


if __name__ == "__main__":
    main()
