"""Pictures of tables: a line per row, and a mark for each figure, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import RnncError
from .console import print_lines

_FORMATS = ("svg", "png", "pdf")
# Told apart without colour, too.
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">")
_COLOURS = ("#1d3557", "#8d99ae", "#2a9d8f", "#b07aa1", "#6d597a", "#bc6c25", "#588157")


class Mark(NamedTuple):
    """A figure of a table.

    Attributes:
        row: the label of its row.
        series: its column, or its contender.
        value: above zero; None leaves it out.
        ours: whether it is rnnc's, which is red.
    """

    row: str
    series: str
    value: float | None
    ours: bool = False


def check_picture(path: Path | None) -> None:
    """See that a picture can be written, before anything is measured for it.

    Args:
        path: the file; None for no picture.

    Raises:
        RnncError: matplotlib is missing, or the file's name has another ending.
    """
    if path is None:
        return
    if path.suffix.lstrip(".") not in _FORMATS:
        raise RnncError(
            f"--plot {path}",
            f"a file that ends in {path.suffix or 'nothing'}",
            f"one of {', '.join(_FORMATS)}",
            f"--plot {path.with_suffix('.svg') if path.name else 'table.svg'}",
        )
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise RnncError(
            f"--plot {path}",
            "no matplotlib",
            "matplotlib, which draws the picture",
            'pip install "rnnc[plots]"',
        ) from error


def write_picture(path: Path | None, title: str, label: str, marks: Sequence[Mark]) -> None:
    """Draw the figures of a table, and say where the picture is.

    Args:
        path: the file; None for no picture.
        title: of the picture.
        label: of the axis.
        marks: the figures; rows and series are in the order of their first figures.
    """
    drawn = [mark for mark in marks if mark.value is not None and mark.value > 0]
    if path is None or not drawn:
        return
    from matplotlib.ticker import LogLocator

    from ..bench.drawing import OURS, new_figure, save, tidy

    rows = list(dict.fromkeys(mark.row for mark in drawn))
    series = list(dict.fromkeys(mark.series for mark in drawn))
    figure = new_figure(9, 1.6 + 0.3 * len(rows))
    axes = figure.subplots()
    for number, name in enumerate(series):
        own = [mark for mark in drawn if mark.series == name]
        colour = OURS if own[0].ours else _COLOURS[number % len(_COLOURS)]
        axes.plot(
            [mark.value or 0 for mark in own],
            [rows.index(mark.row) for mark in own],
            linestyle="none",
            marker=_MARKERS[number % len(_MARKERS)],
            color=colour,
            markersize=7 if own[0].ours else 5,
            label=name,
        )
    tidy(axes)
    axes.set_xscale("log")
    values = [mark.value or 0 for mark in drawn]
    if max(values) < 300 * min(values):  # few powers of ten
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter("")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(label, fontsize=9)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    save(figure, path, title)
    print_lines(f"wrote {path}")
