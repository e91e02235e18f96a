"""The picture of many rows of `rnnc bench`: one line per row, one mark per contender."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .contenders.contender import Contender
from .drawing import tidy
from .results import Comparison, Phase

OURS, PEERS = "#d1495b", "#8d99ae"
TITLES: tuple[tuple[Phase, str], ...] = (
    ("forward", "forward, training"),
    ("forward_backward", "forward + backward"),
)
_MARKERS = {"block": "s", "cluster": "^", "grid": "v", "alternating": "d", "module": "o"}


def draw_overview(figure: Any, rows: Sequence[Comparison]) -> str:
    """Draw a line per row, with marks for contenders, the estimate, the target; the subtitle."""
    figure.set_size_inches(13, 1.8 + 0.42 * len(rows))
    named: dict[str, object] = {}
    for axes, (phase, name) in zip(figure.subplots(1, 2, sharey=True), TITLES, strict=True):
        for place, comparison in enumerate(rows):
            for label, taken, style in _marks(comparison, phase):
                named.setdefault(label, axes.plot(taken, place, linestyle="none", **style)[0])
        axes.set_yticks(range(len(rows)), [str(c.row) for c in rows], fontsize=7)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xscale("log")
        tidy(axes)
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_xlabel("ms, log scale", fontsize=8)
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=6, fontsize=7
    )
    return "+ with its input GEMM; * one head only"


def _marks(found: Comparison, phase: Phase) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Label, milliseconds and style of each mark of a row; rnnc's in the first dtype only."""
    ours = [r for r in found.results if r.contender.ours]
    first = ours[0].contender.dtype if ours else ""
    for result in found.results:
        contender, figure = result.contender, result.figures.get(phase)
        if figure is None or (contender.ours and contender.dtype != first):
            continue
        label = label_of(replace(contender, note="*" if contender.note else ""))
        if contender.ours:
            marker = _MARKERS.get(contender.variant or "module", "o")
            style = {"marker": marker, "color": OURS, "markersize": 5, "markerfacecolor": "none"}
            if contender.variant == "auto":
                style |= {"markersize": 8, "markerfacecolor": OURS, "alpha": 0.55}
        else:
            style = {"marker": _peer_marker(contender), "color": PEERS, "markersize": 5}
        yield label, figure.median, style
        if contender.variant == "auto" and result.planned:
            per_step = sum(result.planned) if phase == "forward_backward" else result.planned[0]
            planned = per_step * found.row.steps / 1e6
            yield "planned", planned, {"marker": "|", "color": "black", "markersize": 11}
    if found.row.target:
        target = getattr(found.row.target, phase)
        yield "target", target, {"marker": 3, "color": "#2a9d8f", "markersize": 8}


def _peer_marker(contender: Contender) -> str:
    if contender.name.startswith("nn."):
        return "s" if contender.dtype == "float16" else "D"
    return "P" if contender.name.startswith("FlashRNN") else "x"


def label_of(contender: Contender) -> str:
    """The label of a contender in a picture."""
    terms = "" if contender.terms == "wx ready" else " +"
    note = f" ({contender.note})" if contender.note else ""
    return f"{contender.name}, {contender.dtype}{terms}{note}"
