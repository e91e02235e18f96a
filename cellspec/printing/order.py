"""The order of lines: each value after those that it refers to."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..expression.node import Node, ordered
from ..expression.sharing import Loop, Named, Naming


def in_order(written: Naming, news: Collection[Node]) -> Iterator[Named | Loop | int]:
    """Yield the statements and the places of the roots in the order of the text.

    Statements come first. One that refers to a new state comes right before the first root that
    needs it: that root needs the new state too, whose root is earlier.

    Args:
        written: the statements, and the roots, each after those that it refers to.
        news: the symbols of the new states, which are what the roots are assigned to.
    """
    refers: dict[Node, bool] = {}
    for node in ordered(written.roots):
        refers[node] = node in news or any(refers[a] for a in node.args)
    yield from (s for s in written.statements if not refers[s.node])
    late = [s for s in written.statements if refers[s.node]]
    for place, root in enumerate(written.roots):
        needed = set(ordered([root])) if late else ()
        yield from (s for s in late if s.node in needed)
        late = [s for s in late if s.node not in needed]
        yield place
