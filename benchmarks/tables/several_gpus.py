"""The tables of several GPUs: measured, by the formula, and planned."""

from __future__ import annotations

import sys
from pathlib import Path

from figures import missing, newest, source, table

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks_plan import lines_of


def several_gpus(results: Path) -> str:
    """A table for each context."""
    found = newest(results, "ranks-*.json")
    if found is None:
        return missing("torchrun --nproc-per-node 2 benchmarks/ranks.py --out ranks.json")
    alone = [row for row in found["rows"] if row["style"] == "one"]
    shapes = sorted({(row["context"], row["batch"]) for row in alone})
    parts = [
        f"{batch} rows of {context} steps:\n\n{table(lines_of(found, context))}"
        for context, batch in shapes
    ]
    return "\n\n".join([*parts, f"The plan has as many rows per GPU. {source(found)}"])
