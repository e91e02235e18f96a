"""The picture of `rnnc bench`: bars for a few rows, a line of marks per row for many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .drawing import new_figure, save, tidy
from .overview import OURS, PEERS, TITLES, draw_overview, label_of
from .results import Comparison
from .rows import BenchError

_MOST_BARS = 4  # rows


def plot(found: Sequence[Comparison], title: str, path: Path) -> None:
    """Draw the rows that have figures.

    Raises:
        BenchError: matplotlib is not installed.
    """
    rows = [c for c in found if any(r.figures for r in c.results)]
    if not rows:
        return
    try:
        figure = new_figure(13, 1)
    except ImportError as error:
        raise BenchError(
            "no matplotlib", "matplotlib for the picture", 'pip install "rnnc[plots]"'
        ) from error
    subtitle = _bars(figure, rows) if len(rows) <= _MOST_BARS else draw_overview(figure, rows)
    save(figure, path, f"{title}\n{subtitle}")


def _bars(figure: Any, rows: Sequence[Comparison]) -> str:
    """Draw a pair of axes per row, with a bar for each contender; the subtitle."""
    bars = sum(len(c.results) for c in rows)
    figure.set_size_inches(13, 1.2 + 0.24 * bars + 0.45 * len(rows))
    heights = [max(len(c.results), 1) for c in rows]
    grid = figure.subplots(len(rows), 2, squeeze=False, height_ratios=heights, sharex="col")
    for line, comparison in zip(grid, rows, strict=True):
        for axes, (phase, name) in zip(line, TITLES, strict=True):
            shown = [r for r in comparison.results if phase in r.figures]
            labels = [label_of(r.contender) for r in shown]
            times = [r.figures[phase].median for r in shown]
            places = range(len(shown))
            colours = [OURS if r.contender.ours else PEERS for r in shown]
            axes.barh(places, times, color=colours)
            axes.set_yticks(places, labels, fontsize=7)
            axes.invert_yaxis()
            axes.set_xscale("log")
            for place, taken in zip(places, times, strict=True):
                axes.text(taken, place, f" {taken:.3g}", va="center", fontsize=7)
            axes.margins(x=0.15)
            axes.set_title(f"{comparison.row}: {name}", fontsize=8, loc="left")
            tidy(axes)
            axes.grid(visible=False)
    for axes in grid[-1]:
        axes.set_xlabel("ms, log scale", fontsize=8)
    return "rnnc red, peers grey; + with its input GEMM"
