"""The picture of `rnnc bench`: bars of milliseconds a row, ours against peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .bench import Comparison, Phase
from .bench_contenders import Contender
from .bench_rows import BenchError

_OURS, _PEERS = "#d1495b", "#8d99ae"
_TITLES: tuple[tuple[Phase, str], ...] = (
    ("forward", "forward, training"),
    ("forward_backward", "forward + backward"),
)


def plot(found: Sequence[Comparison], title: str, path: Path) -> None:
    """Draw the rows that have figures.

    Args:
        found: the rows.
        title: of the picture: machine and date.
        path: the file, such as `cuda-h200-2026-11-20.svg`.

    Raises:
        BenchError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BenchError(
            "no matplotlib", "matplotlib for the picture", 'pip install "rnnc[plots]"'
        ) from error
    rows = [c for c in found if any(r.figures for r in c.results)]
    if not rows:
        return
    bars = sum(len(c.results) for c in rows)
    figure = Figure(figsize=(13, 1.2 + 0.24 * bars + 0.45 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    heights = [max(len(c.results), 1) for c in rows]
    grid = figure.subplots(len(rows), 2, squeeze=False, height_ratios=heights, sharex="col")
    for line, comparison in zip(grid, rows, strict=True):
        for axes, (phase, name) in zip(line, _TITLES, strict=True):
            shown = [r for r in comparison.results if phase in r.figures]
            labels = [_label(r.contender) for r in shown]
            times = [r.figures[phase].median for r in shown]
            places = range(len(shown))
            colours = [_OURS if r.contender.ours else _PEERS for r in shown]
            axes.barh(places, times, color=colours)
            axes.set_yticks(places, labels, fontsize=7)
            axes.invert_yaxis()
            axes.set_xscale("log")
            for place, taken in zip(places, times, strict=True):
                axes.text(taken, place, f" {taken:.3g}", va="center", fontsize=7)
            axes.margins(x=0.15)
            axes.set_title(f"{comparison.row}: {name}", fontsize=8, loc="left")
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=7)
    for axes in grid[-1]:
        axes.set_xlabel("ms, log scale", fontsize=8)
    figure.suptitle(f"{title}\nrnnc red, peers grey; + with its input GEMM", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _label(contender: Contender) -> str:
    terms = "" if contender.terms == "wx ready" else " +"
    note = f" ({contender.note})" if contender.note else ""
    return f"{contender.name}, {contender.dtype}{terms}{note}"
