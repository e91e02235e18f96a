"""The tables of the state tracking tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from figures import of_newest, source
from rnnc.bench.table import markdown

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from tracking_results import task_table


@of_newest("state-tracking-h*.json", "python examples/state_tracking.py --full --out demo")
def state_tracking(found: dict[str, Any]) -> str:
    """A table for each task."""
    tables = [task_table(task, models) for task, models in found["results"].items()]
    parts = [
        f"{table.title[:1].upper()}{table.title[1:]}:\n\n{markdown(table)}" for table in tables
    ]
    picture = f"![Accuracy over length](../benchmarks/results/{found['path'].stem}.png)"
    return "\n\n".join([*parts, f"At most {found['steps']} steps. {source(found)}", picture])
