"""Draws pictures of measurements as SVG, from the files in benchmarks/results.

The function of each measurement draws it, as it drew the PNG there. Three kinds stay PNGs: the file
of state tracking lacks the band over seeds, an example that needs other packages draws PPO's, and
nothing draws the sweeps of 2026-11-21 any more.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
Draw = Callable[[dict[str, Any], Path], None]


def drawn(png: Path, folder: Path) -> str | None:
    """The name of an SVG that replaces a PNG; None if the PNG has no function that draws it.

    Args:
        png: a picture that a page shows.
        folder: of the site's pictures.
    """
    if png.parent != RESULTS:
        return None
    for start, (end, draw) in _DRAW.items():
        file = png.with_name(f"{png.stem.removesuffix(end)}.json")
        if png.stem.startswith(start) and png.stem.endswith(end) and file.exists():
            name = f"{png.stem}.svg"
            mpl.rc_file(Path(__file__).with_name("matplotlibrc"))
            draw(json.loads(file.read_text("utf-8")), folder / name)
            return name
    return None


def _from(folder: str, module: str) -> Any:
    path = str(ROOT / folder)
    if path not in sys.path:
        sys.path.append(path)
    return importlib.import_module(module)


def _comparison(content: dict[str, Any], path: Path) -> None:
    module = _from("benchmarks", "comparison_plot")
    module.draw(module.with_flashrnn(content, RESULTS), path)


def _speed(content: dict[str, Any], path: Path) -> None:
    _from("examples", "language_model.report").draw_speed(content["speed"]["rows"], path)


# By how the name of a picture starts: how it ends beyond the name of its file, and what draws it.
_DRAW: dict[str, tuple[str, Draw]] = {
    "error-over-time-": (
        "",
        lambda content, path: _from("benchmarks", "error_over_time").plot(content, path),
    ),
    "comparison-": ("", _comparison),
    "language-model-": ("-speed", _speed),
}
