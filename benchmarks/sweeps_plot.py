"""The picture of `sweeps.py`: a row of panels per sweep, microseconds per step, log-log axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnnc.bench.drawing import named_sizes, new_figure, save, source_of, tidy

MARKERS = {"block": "s", "cluster": "^", "grid": "o", "alternating": "D", "": "x"}
MIXED = "P"  # a plan whose directions are of two kinds; its variant names both
OURS, PEER, PARTS = "#d1495b", "#8d99ae", ("#264653", "#2a9d8f", "#e9c46a")
AXES = {"head_dim": "head dim", "batch": "batch", "steps": "steps T"}
PHASES = (("forward", "forward"), ("forward_backward", "forward + backward"))


def plot(content: dict[str, Any], path: Path) -> None:
    """Draw the measured points of every sweep."""
    points = content["points"]
    sweeps = [
        (s, [points[key] for key in s["points"] if key in points])
        for s in content["sweeps"].values()
    ]
    sweeps = [(s, found) for s, found in sweeps if found]
    figure = new_figure(12, 1.1 + 3.1 * len(sweeps))
    grid = figure.subplots(len(sweeps), 2, squeeze=False)
    for line, (sweep, found) in zip(grid, sweeps, strict=True):
        for axes, (phase, name) in zip(line, PHASES, strict=True):
            _panel(axes, sweep, found, phase)
            axes.set_title(f"{sweep['title']}: {name}", fontsize=9, loc="left")
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        own = zip(*reversed(axes.get_legend_handles_labels()), strict=True)
        handles |= {label: handle for label, handle in own if label not in handles}
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=5, fontsize=8
    )
    save(figure, path, f"LSTM, us per step: {source_of(content)}", dpi=110)


def _panel(axes: Any, sweep: dict[str, Any], found: list[dict[str, Any]], phase: str) -> None:
    axis = sweep["axis"]
    _floor(axes, axis, found, phase)
    peers = [p for p in found if isinstance(p.get("nn", {}).get("us"), dict)]
    if peers:
        label = f"nn.LSTM, {peers[0]['nn']['dtype']}, with input products"
        took = [p["nn"]["us"][phase] for p in peers]
        axes.plot([p[axis] for p in peers], took, "o-", color=PEER, markersize=4, label=label)
    ours = [p for p in found if isinstance(p["ours_us"], dict)]
    axes.plot([p[axis] for p in ours], [p["ours_us"][phase] for p in ours], "-", color=OURS)
    for variant in dict.fromkeys([*MARKERS, *(p.get("variant", "") for p in ours)]):
        own = [p for p in ours if p.get("variant", "") == variant]
        if own:
            label, marker = f"rnnc {variant}".strip(), MARKERS.get(variant, MIXED)
            places, took = [p[axis] for p in own], [p["ours_us"][phase] for p in own]
            axes.plot(places, took, marker, color=OURS, markersize=6, label=label)
    tidy(axes)
    named_sizes(axes, sorted({p[axis] for p in found}))
    axes.set_yticks(*_ticks(axes.get_ylim()), fontsize=7)
    axes.set_xlabel(AXES[axis], fontsize=8)
    axes.set_ylabel("us per step", fontsize=8)


def _floor(axes: Any, axis: str, found: list[dict[str, Any]], phase: str) -> None:
    """Draw the cost model's estimate, its parts stacked."""
    own = [p for p in found if "floor_ns" in p]
    directions = ["forward"] if phase == "forward" else ["forward", "backward"]
    below = [0.0] * len(own)
    for part, colour in zip(("exchange", "product", "pointwise"), PARTS, strict=True):
        each = [sum(p["floor_ns"][d][part] for d in directions) / 1e3 for p in own]
        below = [a + b for a, b in zip(below, each, strict=True)]
        label = f"model: {'+ ' if part != 'exchange' else ''}{part}"
        axes.plot([p[axis] for p in own], below, "--", color=colour, linewidth=1, label=label)


def _ticks(ends: tuple[float, float]) -> tuple[list[float], list[str]]:
    """Ticks at 1, 2 and 5 times powers of ten, between the ends."""
    every = [digit * 10.0**power for power in range(-4, 7) for digit in (1, 2, 5)]
    inside = [tick for tick in every if ends[0] <= tick <= ends[1]]
    return inside, [f"{tick:g}" for tick in inside]
