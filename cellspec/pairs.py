"""Recurrent weights of a cell: pairs of a gate and a state that feeds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from .cell import CellSpec


class Pair(BaseModel):
    """One recurrent weight: a gate and the state that feeds it, or of a called gate `n` `n()`."""

    model_config = ConfigDict(frozen=True)

    gate: str
    source: str


def pairs_of(cell: CellSpec, recurrent: Literal[True, "diagonal"]) -> tuple[Pair, ...]:
    """The pairs of all gates with recurrent weights of a kind, in the signature's order."""
    pairs = []
    for gate in cell.gates:
        if gate.recurrent == recurrent:
            own = f"{gate.name}()" if gate.name in cell.called else cell.states[0].name
            pairs += [Pair(gate=gate.name, source=source) for source in gate.source or (own,)]
    return tuple(pairs)
