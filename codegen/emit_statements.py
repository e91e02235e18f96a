"""C++ statements of programs, for one unit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from ..cellspec.expression.node import Node
from .emit import cpp
from .parts import Array, Assignment, Control, parts_of
from .program import AnyStatement

INDENT = "  "


class Line(NamedTuple):
    """A line of C++.

    Attributes:
        text: the line.
        terms: the nodes of the cell's equations that it came from.
    """

    text: str
    terms: tuple[Node, ...] = ()


def statement_lines(
    statements: Iterable[AnyStatement],
    outputs: Collection[str] = (),
    write: Callable[[Node], str] = cpp,
) -> Iterator[Line]:
    """The lines of statements.

    Args:
        statements: in the order in which they run.
        outputs: the names that the function declares.
        write: spells an expression.
    """
    for part in parts_of(statements, outputs):
        before = INDENT * part.depth
        match part:
            case Assignment(target, value, kind):
                text = value if isinstance(value, str) else write(value)
                declared = f"{kind} {target}" if kind else target
                yield Line(f"{before}{declared} = {text};", part.terms)
            case Array(name, size):
                yield Line(f"{before}real {name}[{size}];")
            case Control(text):
                yield Line(f"{before}{text}")
