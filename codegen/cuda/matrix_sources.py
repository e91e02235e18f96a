"""Sources of the matrices of a kernel, and how many of these products a stage needs at once."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..derive import Pointwise
from ..layout import layout_of
from .stage_tables import StageTables


class MatrixSource(NamedTuple):
    """A state, or what called gates multiply.

    Attributes:
        name: of it.
        pairs: the number of matrices that multiply it.
        at_once: whether its product is one of those of the stage that has the most.
        stage: that multiplies it; 0 of a cell without stages.
    """

    name: str
    pairs: int
    at_once: bool
    stage: int = 0


def matrix_sources(pointwise: Pointwise, tables: StageTables | None) -> tuple[MatrixSource, ...]:
    """The sources of a direction: first the states.

    Args:
        pointwise: of the cell.
        tables: of a cell with stages.
    """
    layout = layout_of(pointwise.cell)
    states = [layout.states[state] for state in layout.sources.values]
    if tables is None:
        counts = zip(states, layout.source_pairs.values, strict=True)
        return tuple(MatrixSource(state, pairs, True) for state, pairs in counts)
    gates = [layout.gates.names[source.pairs[0][0]] for source in tables.sources]
    names = [*states, *(f"{gate}_argument" for gate in gates[len(states) :])]
    pairs_of = Counter[int]()
    for source in tables.sources:
        pairs_of[source.stage] += len(source.pairs)
    widest = max(pairs_of, key=lambda stage: pairs_of[stage], default=0)
    return tuple(
        MatrixSource(name, len(source.pairs), source.stage == widest, source.stage)
        for name, source in zip(names, tables.sources, strict=True)
    )
