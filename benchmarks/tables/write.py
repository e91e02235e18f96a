"""Writes the tables of figures in the pages, from the newest files in benchmarks/results.

    python benchmarks/tables/write.py

The text between `<!-- figures: NAME -->` and `<!-- end -->` is replaced. If no file has the
figures, the page says that they are not measured, and names the command that measures them.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import comparison
from figures import of_newest, source, table
from language import language_model, several_gpus
from modules import plans, ragged, users
from tracking import state_tracking

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
MEASURED_ON = json.loads((ROOT / "benchmarks" / "anchors.json").read_text("utf-8"))["measured_on"]
_DOCS = (
    "performance.md",
    "language_model.md",
    "comparison.md",
    "distributed.md",
    "state_tracking.md",
)
PAGES = (ROOT / "README.md", *(ROOT / "docs" / name for name in _DOCS))
_PLACE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_BENCH = (
    "rnnc bench --rows all --anchors benchmarks/anchors.json --dtype bfloat16 --queued --ahead"
    " --limit 110"
)
_ALL_ROWS = 16
_QUEUED = "behind queued work"


def filled(page: str, results: Path = RESULTS) -> str:
    """A page with the figures of the files."""

    def write(place: re.Match[str]) -> str:
        lines = TABLES[place[2]](results).splitlines()
        wrapped = [line if line[:1] in "|!" else _wrapped(line) for line in lines]
        return "\n".join([place[1].rstrip("\n"), *wrapped, place[3]])

    return _PLACE.sub(write, page)


@of_newest("cuda-*.json", _BENCH, lambda c: _QUEUED in c["method"])
def rows_table(found: dict[str, Any]) -> str:
    """The table of all rows: rnnc's plan, its GPU time, estimate and target, and the peers."""
    heads = "row, cell, heads x units, batch|plan|ms|target, ms|us per step|by the model"
    lines = [f"{heads}|cuDNN float16, ms|FlashRNN, ms"]
    for row, ours in _rows(found):
        steps, planned = ours["nanoseconds_a_step"], ours["planned_nanoseconds_a_step"] or {}
        cells = [
            f"{row['number']}, {_sizes(row)}",
            ours["runs_as"],
            _phases(ours),
            _numbers(row["target"] or ()),
            _numbers(f"{n / 1e3:.2f}" for n in steps.values() if n),
            _numbers(f"{n / 1e3:.2f}" for n in planned.values()),
            _cudnn(row),
            _numbers(row["flashrnn"] or ()),
        ]
        lines.append("|".join(cells))
    note = f"ms: forward / forward + backward; us per step: forward / backward. {source(found)}"
    return f"{table(lines)}\n\n{note}{_peers_note(found)}"


#: The rows of the README's table, by number.
_LANDING = (2, 4, 7, 11, 12, 16)


@of_newest("cuda-*.json", _BENCH, lambda c: _QUEUED in c["method"])
def landing(found: dict[str, Any]) -> str:
    """A few rows for the README: forward + backward of rnnc, cuDNN and FlashRNN."""
    lines = ["cell, heads x units|rnnc|cuDNN, float16|FlashRNN"]
    for row, ours in _rows(found):
        if row["number"] in _LANDING:
            sizes = _sizes(row).rpartition(",")[0]
            peers = [_cudnn(row), _numbers(row["flashrnn"] or ())]
            lines.append("|".join([sizes, _both(_phases(ours)), *map(_both, peers)]))
    note = "cuDNN's times include the product of the input with its weights."
    return f"{table(lines)}\n\n{note} {source(found)}{_peers_note(found)}"


@of_newest("error-over-time-*.json", "python benchmarks/error_over_time.py")
def error(found: dict[str, Any]) -> str:
    """The table of errors over all steps, and the picture of errors over time."""
    lines = ["cell, heads x units, dtype|plan|ours|eager torch loop"]
    for case in found["cases"]:
        *own, eager = case["curves"]
        for curve in own:
            if "over_all" not in curve:
                continue
            sizes = f"{_sizes(case)}, {case['dtype']}"
            name, loop = curve["name"].removeprefix("rnnc "), eager["over_all"]
            lines.append(f"{sizes}|{name}|{curve['over_all']:.1e}|{loop:.1e}")
    picture = f"../benchmarks/results/{found['path'].with_suffix('.png').name}"
    text = f"![error over steps]({picture})\n\n{table(lines)}\n\n"
    return text + f"Relative error of h against float64 over all steps. {source(found)}"


@of_newest("roofline-*.json", "python benchmarks/roofline.py")
def roofline(found: dict[str, Any]) -> str:
    """The table of the parts of a step, and of what warps wait for."""
    lines = ["row|plan|direction|us per step|exchange %|product %|pointwise %|warps wait for (ncu)"]
    for number, row in found["rows"].items():
        for direction, shares in (row["shares"] or {}).items():
            model = row.get("model_ns", {}).get(direction, {})
            total = sum(model.values())
            parts = [
                f"{100 * shares[part]:.0f}"
                + (f" ({100 * model[part] / total:.0f})" if total else "")
                for part in ("exchange", "product", "pointwise")
            ]
            stalls = ((row.get("ncu") or {}).get(direction) or {}).get("stalls", {})
            waits = ", ".join(f"{k} {100 * v:.0f} %" for k, v in list(stalls.items())[:3])
            took = f"{row['us'][direction]:.2f}"
            cells = [number, row.get("variant", ""), direction, took, *parts, waits or "-"]
            lines.append("|".join(cells))
    note = "Shares by leaving out; the cost model's in brackets; exchange is the rest."
    failure = found.get("ncu_failure")
    note += f" No counters: {failure}." if failure else ""
    return f"{table(lines)}\n\n{note} {source(found)}"


TABLES: dict[str, Callable[[Path], str]] = {
    "rows": rows_table,
    "landing": landing,
    "error": error,
    "roofline": roofline,
    "users": users,
    "plans": plans,
    "ragged": ragged,
    "language_model": language_model,
    "several_gpus": several_gpus,
    "state_tracking": state_tracking,
    **comparison.TABLES,
}


def _rows(content: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows of the table, by number, each with rnnc's contender."""
    numbered = sorted((r for r in content["rows"] if r["target"]), key=lambda r: r["number"])
    pairs = [(row, _ours(row)) for row in numbered]
    return [(row, ours) for row, ours in pairs if ours is not None]


def _peers_note(content: dict[str, Any]) -> str:
    there = {row["number"] for row in content["rows"]}
    missing = [str(n) for n in range(1, _ALL_ROWS + 1) if n not in there]
    note = f" FlashRNN 1.0.5, its best kernel: {MEASURED_ON}, from an idle GPU."
    return note + (f" Not in that run: rows {', '.join(missing)}." if missing else "")


def _wrapped(line: str) -> str:
    indent = "  " if line.startswith("- ") else ""  # of an item of a list
    return textwrap.fill(
        line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _sizes(row: dict[str, Any]) -> str:
    return f"{row['cell']}, {row['heads']} x {row['head_dim']}, {row['batch']}"


def _ours(row: dict[str, Any]) -> dict[str, Any] | None:
    """The contender `"auto"`; if it was not measured, rnnc's fastest."""
    ready = [c for c in row["contenders"] if c["variant"] and c["forward_backward"]]
    ready = [c for c in ready if c["dtype"] == ready[0]["dtype"]]
    auto = next((c for c in ready if c["variant"] == "auto"), None)
    return auto or min(ready, key=lambda c: c["forward_backward"]["median"], default=None)


def _cudnn(row: dict[str, Any]) -> str:
    nn = [
        c
        for c in row["contenders"]
        if c["name"].startswith("nn.") and c["dtype"] == "float16" and c["forward_backward"]
    ]
    return f"{_phases(nn[0])}{' (one head)' if nn[0]['note'] else ''}" if nn else "-"


def _phases(contender: dict[str, Any]) -> str:
    both = (contender[p]["median"] for p in ("forward", "forward_backward"))
    return _numbers(f"{median:.3g}" for median in both)


def _both(phases: str) -> str:
    """The second of two phases, forward + backward, with its note."""
    return phases.rpartition(" / ")[2]


def _numbers(values: Iterable[Any]) -> str:
    return " / ".join(f"{v:g}" if isinstance(v, int | float) else v for v in values) or "-"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text("utf-8")), "utf-8")
