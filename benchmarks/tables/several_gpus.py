"""The tables of several GPUs: measured, by the formula, and planned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from figures import of_newest, source, table

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks_plan import lines_of


@of_newest("ranks-*.json", "torchrun --nproc-per-node 2 benchmarks/ranks.py --out ranks.json")
def several_gpus(found: dict[str, Any]) -> str:
    """A table for each context."""
    alone = [row for row in found["rows"] if row["style"] == "one"]
    shapes = sorted({(row["context"], row["batch"]) for row in alone})
    parts = [
        f"{batch} rows of {context} steps:\n\n{table(lines_of(found, context))}"
        for context, batch in shapes
    ]
    return "\n\n".join([*parts, f"The plan has as many rows per GPU. {source(found)}"])
