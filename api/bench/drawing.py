"""Parts that the pictures of figures have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

OURS = "#d1495b"  # the colour of rnnc's figures


def new_figure(width: float, height: float) -> Any:
    """An empty figure of matplotlib that needs no window; its size is in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Any) -> None:
    """Give axes small ticks, a light grid behind what is drawn, and no frame."""
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)


def named_sizes(axes: Any, sizes: list[int]) -> None:
    """Draw on logarithmic axes, and write these sizes below."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=7)
    axes.minorticks_off()


def save(figure: Any, path: Path, title: str, **more: Any) -> None:
    """Write a figure with its title into a file, whose folder is created."""
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, **more)


def source_of(content: dict[str, Any]) -> str:
    """The machine and the day of a record, for a title."""
    on = content["machine"]
    return f"{on['device']}, torch {on['torch']}, {content['date']}"
