"""What state_tracking.py makes of its runs: a learning rate, tables, a picture and a record.

A run is what its file holds: task, model, rate, seed, steps, curve (the accuracy on held-out
strings of the trained lengths, by step), by_length (None where nothing is asked) and seconds.
"""

import math
import statistics
from itertools import chain
from pathlib import Path
from typing import Any

import parity
import torch
from parity import LONGEST, TRAINED
from rich.table import Table
from rnnc.bench.table import plain_table
from tracking_tasks import TASKS

PUBLISHED = dict(parity.PUBLISHED, mamba="0.56", mlstm="0.54")
Results = dict[str, dict[str, list[dict[str, Any]]]]


def best_rate(tried: list[dict[str, Any]]) -> float:
    """The rate with the best accuracy on held-out strings, over the whole of training."""

    # A run that solved the task stops early: its last accuracy holds for the steps it was spared.
    def area(run: dict[str, Any]) -> float:
        accuracies, spared = [*run["curve"].values()], run["steps"] - int([*run["curve"]][-1])
        return sum(accuracies) + accuracies[-1] * (spared / 50)

    return max(tried, key=area)["rate"]


def extrapolated(run: dict[str, Any]) -> float:
    """The mean accuracy on lengths that were not trained."""
    return statistics.fmean(a for a in run["by_length"][TRAINED - 1 :] if a is not None)


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs of a model on a task, without their curves; `by_length` is the mean of the seeds."""
    each = [
        {
            "seed": run["seed"],
            "steps": int([*run["curve"]][-1]),
            "seconds": round(run["seconds"], 1),
            "trained": [*run["curve"].values()][-1],
            "extrapolated": extrapolated(run),
        }
        for run in runs
    ]
    lengths = zip(*(run["by_length"] for run in runs), strict=True)
    mean = [None if at[0] is None else round(statistics.fmean(at), 4) for at in lengths]
    return {"rate": runs[0]["rate"], "runs": each, "by_length": mean}


def draw(results: Results, path: Path) -> None:
    from matplotlib.figure import Figure

    columns = min(3, len(results))
    rows = math.ceil(len(results) / columns)
    figure = Figure(figsize=(4 * columns + 1, 3.6 * rows), layout="constrained")
    panels = [*figure.subplots(rows, columns, squeeze=False).flat]
    colours = {model: f"C{i}" for i, model in enumerate(dict.fromkeys(chain(*results.values())))}
    lines = {}
    for axes, (task, models) in zip(panels, results.items(), strict=False):
        for model, runs in models.items():
            curves = torch.tensor(
                [[math.nan if a is None else a for a in run["by_length"]] for run in runs]
            )
            asked = ~curves[0].isnan()
            lengths, curves = torch.arange(1, LONGEST + 1)[asked], curves[:, asked]
            colour, spread = colours[model], (curves.amin(0), curves.amax(0))
            (lines[model],) = axes.plot(lengths, curves.mean(0), color=colour)
            axes.fill_between(lengths, *spread, color=colour, alpha=0.2, linewidth=0)
        axes.axvspan(1, TRAINED, color="0.9")
        axes.axhline(TASKS[task].chance(), color="0.5", linestyle=":")
        axes.set(xlabel="length in tokens", title=TASKS[task].title, ylim=(0, 1.05))
    for axes in panels[len(results) :]:
        axes.axis("off")
    figure.supylabel("accuracy")
    figure.legend(lines.values(), lines, loc="outside right center")
    figure.savefig(path, dpi=90)  # below 200 kB


def task_table(task: str, models: dict[str, dict[str, Any]]) -> Table:
    """A table of a task, from what `summary` gives for each model."""
    about, published = TASKS[task], PUBLISHED if task == "parity" else {}
    numbers = ["rate", "seeds", "steps", f"1..{TRAINED}", f"{TRAINED}..{LONGEST}", "range"]
    table = plain_table(about.title, ["model"], [*numbers, *(["published"] if published else [])])
    table.caption = f"{about.alphabet}; asked: {about.asked}; chance {about.chance():.3f}"
    for model, given in models.items():
        runs = given["runs"]
        on = [run["extrapolated"] for run in runs]
        trained = statistics.fmean(run["trained"] for run in runs)
        steps = f"{statistics.median(run['steps'] for run in runs):.0f}"
        cells = [model, f"{given['rate']:g}", str(len(runs)), steps, f"{trained:.3f}"]
        cells.append(f"{statistics.fmean(on):.3f}")
        cells.append(f"{min(on):.3f}-{max(on):.3f}" if len(on) > 1 else "-")
        table.add_row(*cells, *([published[model]] if published else []))
    return table
