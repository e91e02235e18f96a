"""Draws what `rnnc bench --peers` measured, over head dim, batch and length.

    python benchmarks/comparison_plot.py benchmarks/results/comparison-cuda-h200-2026-11-23.json

The picture has the name of the file. Each panel shows forward + backward of an LSTM of 768 units.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rnnc.bench.drawing import OURS, named_sizes, new_figure, save, source_of, tidy
from rnnc.bench.results import median_of

sys.path.append(str(Path(__file__).parent / "tables"))
from peers_files import COLUMNS, contender_of, with_flashrnn

PEERS = ("#264653", "#2a9d8f", "#e9c46a", "#8d99ae", "#6a4c93", "#1982c4", "#8ac926")
# The title of a panel, the size on its axis, and the sizes that are the same in it.
PANELS = (
    ("heads of 16 to 768, B 16, T 1024", "head_dim", {"batch": 16, "steps": 1024}),
    ("12 x 64, T 1024", "batch", {"head_dim": 64, "steps": 1024}),
    ("1 x 768, T 1024", "batch", {"head_dim": 768, "steps": 1024}),
    ("12 x 64, B 16", "steps", {"head_dim": 64, "batch": 16}),
    ("1 x 768, B 16", "steps", {"head_dim": 768, "batch": 16}),
)
AXES = {"head_dim": "units per head", "batch": "batch rows", "steps": "steps"}


def draw(content: dict[str, Any], path: Path) -> None:
    """Draw the cases of a file."""
    figure = new_figure(12, 6.4)
    grid = figure.subplots(2, 3)
    cases = [c for c in content["cases"] if c["heads"] * c["head_dim"] == 768 and c["steps"] >= 128]
    named: dict[str, Any] = {}
    for axes, (title, axis, same) in zip(grid.flat, PANELS, strict=False):
        own = [c for c in cases if c["cell"] == "lstm" and same.items() <= c.items()]
        _panel(axes, sorted(own, key=lambda c: c[axis]), axis, named)
        axes.set_title(title, fontsize=9, loc="left")
    grid[-1, -1].axis("off")
    grid[-1, -1].legend(list(named.values()), list(named), loc="center", fontsize=8)
    title = f"LSTM of 768 units, forward + backward, ms: {source_of(content)}"
    note = "; + with the product of the input, * another function"
    save(figure, path, title + note, dpi=100)


def _panel(axes: Any, cases: list[dict[str, Any]], axis: str, named: dict[str, Any]) -> None:
    for (label, key), colour in zip(COLUMNS.items(), (OURS, OURS, *PEERS), strict=True):
        found = [(case[axis], contender_of(case, *key)) for case in cases]
        # One head alone, where the others run several, is another size.
        points = [
            (place, took)
            for place, c in found
            if (took := median_of(c, "forward_backward")) and not c["note"].startswith("one head")
        ]
        if points:
            style = "--" if label.endswith("*") else "-"
            line = axes.plot(*zip(*points, strict=True), f"o{style}", color=colour, markersize=3)[0]
            line.set_alpha(0.5 if label.endswith("+") else 1)
            named.setdefault(label, line)
    tidy(axes)
    named_sizes(axes, [case[axis] for case in cases])
    axes.set_xlabel(AXES[axis], fontsize=8)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        content = with_flashrnn(json.loads(file.read_text("utf-8")), file.parent)
        draw(content, file.with_suffix(".png"))
