"""The tables of the state tracking tasks."""

from __future__ import annotations

import statistics
from typing import Any

from figures import of_newest, source, table

_NAMES = {
    "parity": "Parity",
    "arithmetic": "Modular arithmetic without brackets",
    "cycle": "Cycle navigation",
    "s5": "Word problem of S5",
    "recall": "Associative recall",
}


@of_newest("state-tracking-h*.json", "python examples/state_tracking.py --full --out demo")
def state_tracking(found: dict[str, Any]) -> str:
    """A table for each task."""
    published = {"parity": found["published"]}
    parts = [
        f"{_NAMES[task]}:\n\n{table(_lines(models, published.get(task, {})))}"
        for task, models in found["results"].items()
    ]
    picture = f"![Accuracy over length](../benchmarks/results/{found['path'].stem}.png)"
    return "\n\n".join([*parts, f"At most {found['steps']} steps. {source(found)}", picture])


def _lines(models: dict[str, Any], published: dict[str, str]) -> list[str]:
    lines = [f"model|rate|seeds|steps|1..40|40..256|range{'|published' if published else ''}"]
    for model, given in models.items():
        runs = given["runs"]
        on = [run["extrapolated"] for run in runs]
        trained, mean = (
            f"{statistics.fmean(run[key] for run in runs):.3f}"
            for key in ("trained", "extrapolated")
        )
        steps = f"{statistics.median(run['steps'] for run in runs):.0f}"
        cells = [model, f"{given['rate']:g}", str(len(runs)), steps, trained, mean]
        cells.append(f"{min(on):.3f}-{max(on):.3f}" if len(runs) > 1 else "-")
        lines.append("|".join([*cells, *([published[model]] if published else [])]))
    return lines
