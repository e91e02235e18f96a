"""The terms of a cell: each distinct part of its equations, with a number and perhaps a colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from ..cellspec.cell import CellSpec
from ..cellspec.expression.node import Node
from ..codegen.origins import of_terms

# As many as the page's style sheet has. More terms share them.
COLOURS = 8


@dataclass(frozen=True)
class Terms:
    """The nodes of a cell's equations.

    Attributes:
        numbers: a number for each node that is not a plain number, as text.
        colours: the colour of each call of a function.
    """

    numbers: Mapping[Node, str]
    colours: Mapping[Node, int]

    @classmethod
    def of(cls, cell: CellSpec, prefix: str = "") -> Self:
        """The terms of a cell.

        Args:
            cell: the cell.
            prefix: comes before each number, to tell the cells of one page apart.
        """
        nodes = list(of_terms(cell.updates))
        calls = [n for n in nodes if n.op == "call"]
        return cls(
            {node: f"{prefix}{place}" for place, node in enumerate(nodes)},
            {node: place % COLOURS for place, node in enumerate(calls)},
        )

    def mark(self, nodes: Iterable[Node]) -> str:
        """The numbers of some terms, as an attribute of the page.

        Args:
            nodes: the terms; others are left out.
        """
        return " ".join(self.numbers[n] for n in nodes if n in self.numbers)

    def chips(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        """The colours of some terms, each once.

        Args:
            nodes: the terms.
        """
        return tuple(dict.fromkeys(self.colours[n] for n in nodes if n in self.colours))
