"""Writes the tables of figures in the pages, from the newest files in benchmarks/results.

    python benchmarks/tables/write.py

The text between `<!-- figures: NAME -->` and `<!-- end -->` is replaced. If no file has the
figures, the page says that they are not measured, and names the command that measures them.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import comparison
from figures import of_newest, source, table
from language import language_model, several_gpus
from modules import plans, ragged, users
from rnnc.bench.table import markdown, pair
from rnnc.bench.tables import best_of_ours, both_times, cudnn_of, rows_table
from tracking import state_tracking

sys.path.insert(0, str(Path(__file__).parents[1]))
from roofline import shares_table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
MEASURED_ON = json.loads((ROOT / "benchmarks" / "anchors.json").read_text("utf-8"))["measured_on"]
_DOCS = ("performance", "language_model", "comparison", "distributed", "state_tracking")
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in _DOCS))
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
def rows(found: dict[str, Any]) -> str:
    """The table of all rows: rnnc's plan, its GPU time, estimate and target, and the peers."""
    aimed = [row for row in found["rows"] if row["target"]]
    shown = markdown(rows_table(sorted(aimed, key=lambda row: row["number"])))
    note = f"ms: forward / forward + backward; us per step: forward / backward. {source(found)}"
    return f"{shown}\n\n{note}{_peers_note(found)}"


#: The rows of the README's table, by number.
_LANDING = (2, 4, 7, 11, 12, 16)


@of_newest("cuda-*.json", _BENCH, lambda c: _QUEUED in c["method"])
def landing(found: dict[str, Any]) -> str:
    """A few rows for the README: forward + backward of rnnc, cuDNN and FlashRNN."""
    lines = ["cell, heads x units|rnnc|cuDNN, float16|FlashRNN"]
    rows = {row["number"]: row for row in found["rows"] if row["target"]}
    for number in _LANDING:
        ours = number in rows and best_of_ours(rows[number])
        if ours:
            row = rows[number]
            times = both_times(ours), cudnn_of(row), pair(row["flashrnn"] or (), "g") or "-"
            sizes = f"{row['cell']}, {row['heads']} x {row['head_dim']}"
            lines.append("|".join([sizes, *map(_both, times)]))
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
    note = "Shares by leaving out; the cost model's in brackets; exchange is the rest."
    failure = found.get("ncu_failure")
    note += f" No counters: {failure}." if failure else ""
    return f"{markdown(shares_table(found['rows']))}\n\n{note} {source(found)}"


TABLES: dict[str, Callable[[Path], str]] = {
    "rows": rows,
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


def _both(phases: str) -> str:
    """The second of two phases, forward + backward, with its note."""
    return phases.rpartition(" / ")[2]


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text("utf-8")), "utf-8")
