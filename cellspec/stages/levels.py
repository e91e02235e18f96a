"""Which exchange between units each value of a step waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..expression.node import Node, ordered
from .nodes import STAGES

if TYPE_CHECKING:
    from ..cell import CellSpec


@dataclass(frozen=True)
class Levels:
    """The exchanges between units in a step, in their order.

    The first exchange has the products with states. A value that reads a result of it has level 1.
    A product or reduction of values of level n belongs to exchange n + 1, and one of states alone
    to the first.

    Attributes:
        exchanges: the called gates and reductions of each exchange; the first also has the products
            with states.
    """

    exchanges: tuple[tuple[Node, ...], ...]

    @property
    def further(self) -> int:
        """Number of exchanges after the first."""
        return max(0, len(self.exchanges) - 1)


def levels_of(cell: CellSpec) -> Levels:
    """Find the exchanges of a step of a cell.

    Args:
        cell: any cell.
    """
    weighted = {p.gate for p in cell.dense_pairs}
    level: dict[Node, int] = {}
    found: dict[int, list[Node]] = {1: []} if weighted else {}
    for node in ordered(cell.updates):
        below = max((level[a] for a in node.args), default=0)
        if node.is_symbol:
            below = int(node.name in weighted)
        elif node.op == "units" or (node.op == "gate" and node.name in weighted):
            below += 1
            found.setdefault(below, []).append(node)
        level[node] = below
    return Levels(tuple(tuple(found[n]) for n in sorted(found)))


def called_gates(updates: Iterable[Node]) -> tuple[str, ...]:
    """The names of the gates that equations call, sorted."""
    return tuple(sorted({node.name for node in ordered(updates) if node.op == "gate"}))


def first_stage(updates: Iterable[Node]) -> Node | None:
    """The first called gate or reduction of equations; None if they have none."""
    return next((node for node in ordered(updates) if node.op in STAGES), None)
