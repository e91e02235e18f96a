"""The results of all commands: one file, a table, two pictures."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table
from rnnc.bench.report import machine_line

from .runs import Places
from .tables import runs_table

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results"
COMPARISONS = {"tokens": "equal tokens", "time": "equal wall-clock"}
STYLES, HIGHEST = ("-", "--", ":"), 1000.0  # of curves; the perplexity at the top of a picture
RUN = (
    "name label model size by context batch parameters steps tokens passes seconds"
    " tokens_per_second perplexity memory complete rate compiled seed curve"
).split()


def gather(places: Places, corpus: dict[str, Any] | None) -> dict[str, Any]:
    """What the folder `out` holds of this corpus, as one result.

    Args:
        places: the folders.
        corpus: the summary of the corpus; None if no text was read.
    """
    runs = [json.loads(p.read_text("utf-8")) for p in sorted((places.out / "runs").glob("*.json"))]
    speed = _read(places.out / "speed.json")
    machines = {json.dumps(each["machine"]) for each in [*runs, *([speed] if speed else [])]}
    digests = {each["corpus"] for each in runs}
    if len(machines) > 1 or len(digests) > 1:
        raise SystemExit(
            f"{places.out} holds runs of {len(digests)} texts on {len(machines)} machines, which"
            " cannot be compared: give each an --out of its own"
        )
    return {
        "date": str(date.today()),
        "command": "python examples/language_model.py report",
        "machine": json.loads(machines.pop()) if machines else {},
        "corpus": corpus,
        "rates": _read(places.out / "rates.json"),
        "runs": [{key: each.get(key) for key in [*RUN, "rate from"]} for each in runs],
        "speed": speed and {key: speed[key] for key in ("rows", "recurrences")},
    }


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def committed(digest: str) -> tuple[dict[str, float | None], str]:
    """Perplexities of the committed result, by name of the run, if it is of the same corpus.

    Returns:
        The perplexities, and a sentence.
    """
    results = [
        json.loads(path.read_text("utf-8")) for path in COMMITTED.glob("language-model-*.json")
    ]
    found = [each for each in results if each["corpus"]]  # others hold speeds alone
    if not found:
        return {}, ""
    last = max(found, key=lambda each: (each["date"], len(each["runs"])))
    if last["corpus"]["digest"] != digest:
        return {}, (
            "The committed result is of the corpus of another machine"
            f" ({last['corpus']['digest'][:12]}, here {digest[:12]}): no comparison."
        )
    return {r["name"]: r["perplexity"] for r in last["runs"]}, "The corpus is the committed one."


def table(result: dict[str, Any]) -> Table:
    """The runs, beside the committed ones where the corpus is the same."""
    before, told = committed(result["corpus"]["digest"]) if result["corpus"] else ({}, "")
    shown = runs_table(result["runs"], before)
    device = result["machine"] and f" {machine_line(result['machine'])}."
    shown.caption = f"Passes: how often a token was read.{device} {told}".strip()
    return shown


def write(result: dict[str, Any], out: Path) -> None:
    """The file and the pictures of what there is."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "language_model.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    sizes = sorted({run["size"] for run in result["runs"] if run["by"]})
    for size in sizes:
        draw_curves(
            [run for run in result["runs"] if run["size"] == size and run["by"]],
            out / f"language_model_{size}.png",
        )
    if result["speed"]:
        draw_speed(result["speed"]["rows"], out / "language_model_speed.png")


def draw_curves(runs: list[dict[str, Any]], path: Path) -> None:
    """Perplexity over tokens, and over seconds: a colour per model, a style per shape."""
    models = list(dict.fromkeys(run["label"] for run in runs))
    shapes = list(dict.fromkeys((run["context"], run["batch"]) for run in runs))
    figure = Figure(figsize=(11, 4), layout="constrained")
    for axes, (by, title) in zip(figure.subplots(1, 2), COMPARISONS.items(), strict=True):
        over = "tokens" if by == "tokens" else "seconds"
        for run in (each for each in runs if each["by"] == by):
            shape = run["context"], run["batch"]
            style = STYLES[shapes.index(shape) % len(STYLES)]
            _curve(axes, run, over, f"C{models.index(run['label'])}", style)
        axes.set(xlabel=over, ylabel="perplexity", yscale="log", title=f"At {title}")
        if axes.lines:
            # A run that learned nothing would leave no room for the others.
            axes.set_ylim(top=min(axes.get_ylim()[1], HIGHEST))
            axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def _curve(axes: Axes, run: dict[str, Any], over: str, colour: str, style: str) -> None:
    """The perplexity of a part of the text while training, and that of all of it as a dot."""
    points = [(p[over], p["perplexity"]) for p in run["curve"]]
    shape = f"{run['context']} x {run['batch']}"
    line = {"color": colour, "linestyle": style, "label": f"{run['label']}, {shape}"}
    axes.plot(*zip(*points, strict=True) if points else ([], []), **line)
    if run["perplexity"] is not None:
        axes.plot(run[over], run["perplexity"], "o", color=colour)


def draw_speed(rows: list[dict[str, Any]], path: Path) -> None:
    """Tokens per second, a group of bars per size and shape."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots()
    shapes = list(dict.fromkeys((r["size"], r["context"], r["batch"]) for r in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    for i, model in enumerate(models):
        own = [row for row in rows if row["model"] == model and "failure" not in row]
        places = [shapes.index((r["size"], r["context"], r["batch"])) for r in own]
        left = [place + (i - len(models) / 2) * 0.8 / len(models) for place in places]
        heights = [r["tokens_per_second"] for r in own]
        axes.bar(left, heights, 0.8 / len(models), align="edge", label=model)
    axes.set_xticks(range(len(shapes)), [f"{size}\n{t} x {b}" for size, t, b in shapes])
    axes.set(xlabel="size, context x batch", ylabel="tokens per second")
    axes.legend()
    figure.savefig(path, dpi=110)
