"""The picture of `error_over_time.py`: a panel per cell and size, a colour per dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnnc.bench.drawing import new_figure, save, source_of, tidy

COLOURS = {"bfloat16": "#d1495b", "float16": "#264653", "float32": "#2a9d8f"}
MARKERS = {"block": "s", "cluster": "^", "grid": "o", "alternating": "D"}


def plot(content: dict[str, Any], path: Path) -> None:
    """Draw all curves."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for case in content["cases"]:
        name = f"{case['cell']}, {case['heads']} x {case['head_dim']}, batch {case['batch']}"
        panels.setdefault(name, []).append(case)
    lines = (len(panels) + 1) // 2
    figure = new_figure(12, 1 + 3.6 * lines)
    grid = figure.subplots(lines, 2, squeeze=False, sharex=True)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes, (name, cases) in zip(grid.flat, panels.items(), strict=False):
        for case in cases:
            for curve in case["curves"]:
                if "errors" in curve:
                    _curve(axes, case["dtype"], curve)
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("step", fontsize=8)
        axes.set_ylabel("relative error of h", fontsize=8)
        tidy(axes)
        axes.legend(fontsize=7)
    save(figure, path, f"Error against float64: {source_of(content)}", dpi=110)


def _curve(axes: Any, dtype: str, curve: dict[str, Any]) -> None:
    ours = curve["name"].startswith("rnnc")
    marker = MARKERS.get(curve["name"].removeprefix("rnnc "), "")
    axes.plot(
        curve["steps"],
        curve["errors"],
        linestyle="-" if ours else ":",
        marker=marker,
        markersize=3,
        color=COLOURS[dtype],
        label=f"{curve['name']}, {dtype}",
    )
