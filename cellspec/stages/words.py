"""The exchanges of a step in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cell import CellSpec


def notes_on_exchanges(cell: CellSpec) -> list[str]:
    """Return a step's exchanges in words, a line each; none for a cell without stages.

    Args:
        cell: any cell.
    """
    if not cell.has_stages:
        return []
    return [f"per step {exchanges_in_words(cell)}"]


def exchanges_in_words(cell: CellSpec) -> str:
    """Return how many exchanges between units a step has, and with stages which they are.

    Args:
        cell: any cell.
    """
    count = len(cell.levels.exchanges)
    words = f"{count or 'no'} exchange{'' if count == 1 else 's'} between units"
    return f"{words}: {_listed(cell)}" if cell.has_stages else words


def further_in_words(cell: CellSpec) -> str:
    """Return a step's exchanges after the first, such as "1 further exchange"; empty for none.

    Args:
        cell: any cell.
    """
    count = cell.levels.further
    return f"{count} further exchange{'' if count == 1 else 's'}" if count else ""


def _listed(cell: CellSpec) -> str:
    sources = [p.source for p in cell.dense_pairs if p.gate not in cell.called]
    parts = []
    for place, own in enumerate(cell.levels.exchanges):
        names = [f"{node.name}(…)" for node in own]
        if place == 0 and sources:
            names.insert(0, f"products with {' and '.join(dict.fromkeys(sources))}")
        parts.append(_joined(names))
    return ", then ".join(parts) or "called gates of diagonal weights alone"


def _joined(names: Sequence[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last
