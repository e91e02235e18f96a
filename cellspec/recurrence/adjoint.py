"""Linearity in time of the backward of a cell without dense matrices, in its cotangents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..expression.graph import everywhere
from ..expression.loops import body_of, carried, starts_of, unchanged, unchanged_of
from ..expression.node import Node, ordered
from ..functions import TABLE
from .sight import MOST_COUPLED, NO_STATES, States, coupled, symbols_that_see, unit_updates
from .words import quoted

if TYPE_CHECKING:
    from ..cell import CellSpec


def why_no_scan_backward(cell: CellSpec) -> str:
    """Return what keeps a scan from computing the backward, or an empty text.

    That is a function with a gradient that is not linear, `clip_gradient`, on the way of a
    cotangent from a state to its own past, or more than `MOST_COUPLED` states that read each other.
    """
    new = unit_updates(cell)
    edges = _GradientEdges(new)
    symbols = symbols_that_see(cell)
    seen = edges.seen(new, symbols)
    names = [state.name for state in cell.states]
    updates = dict(zip(names, new, strict=True))
    for group in coupled({name: seen[updates[name]] for name in names}):
        own = frozenset(group)
        roots = [updates[name] for name in group]
        if len(group) > MOST_COUPLED:
            return f"{len(group)} states read each other, more than {MOST_COUPLED}"
        clipped = edges.clipped(roots, {s: states & own for s, states in symbols.items()})
        if clipped is not None:
            return f"{quoted(clipped)} clips a cotangent on its way through time"
    return ""


def clipped_on_the_way(cell: CellSpec, states: Iterable[str]) -> Node | None:
    """Return a call of `clip_gradient` on the way from a state to the past of one, if any.

    Args:
        cell: a cell without dense matrices.
        states: the states from which and to which cotangents go. Each part of the backward may be
            linear where the map of all of them is not: a clip may lie between two parts.
    """
    new, own = unit_updates(cell), frozenset(states)
    updates = zip((state.name for state in cell.states), new, strict=True)
    roots = [update for name, update in updates if name in own]
    symbols = {s: seen & own for s, seen in symbols_that_see(cell).items()}
    return _GradientEdges(new).clipped(roots, symbols)


class _GradientEdges:
    """The arguments of nodes that gradients reach."""

    def __init__(self, roots: Iterable[Node]) -> None:
        """Look for functions with a gradient that is not linear below `roots`."""
        self._clips = {node for node in everywhere(roots) if _is_clip(node)}
        self._reached: dict[str, tuple[bool, ...]] = {}

    def of(self, node: Node) -> tuple[Node, ...]:
        """Return the arguments of a node that its gradient reaches."""
        if node.is_condition:
            return ()
        if node.op != "call":
            return node.args
        reached = self._reached.get(node.name)
        if reached is None:
            reached = self._reached[node.name] = _reached_arguments(node.name)
        return tuple(a for a, passes in zip(node.args, reached, strict=True) if passes)

    def seen(self, roots: Iterable[Node], symbols: Mapping[Node, States]) -> dict[Node, States]:
        """Return the states that gradients of each node below the roots reach."""
        seen: dict[Node, States] = {}
        for node in ordered(roots):
            own = symbols.get(node, NO_STATES)
            seen[node] = own.union(*(seen[a] for a in self.of(node)))
        return seen

    def clipped(self, roots: Iterable[Node], symbols: Mapping[Node, States]) -> Node | None:
        """Return a call that clips a gradient on its way from the roots to a state, if any."""
        if not self._clips:
            return None
        roots = list(roots)
        seen = self.seen(roots, symbols)
        for node in self._below(roots):
            if node in self._clips and seen[node]:
                return node
            if node.op == "repeat" and seen[node]:
                found = self._clipped_inside(node, seen)
                if found is not None:
                    return found
        return None

    def _clipped_inside(self, loop: Node, seen: Mapping[Node, States]) -> Node | None:
        """Return a call in a loop's body that clips a gradient on its way to a state, if any."""
        roots = body_of(loop).roots
        symbols = {carried(i): seen[a] for i, a in enumerate(starts_of(loop))}
        symbols |= {unchanged(i): seen[a] for i, a in enumerate(unchanged_of(loop))}
        for _ in roots:  # what a carried value depends on reaches all others in so many passes
            inner = self.seen(roots, symbols)
            for i, root in enumerate(roots):
                symbols[carried(i)] |= inner[root]
        return self.clipped(roots, symbols)

    def _below(self, roots: Iterable[Node]) -> Iterable[Node]:
        """Yield each node that a gradient of the roots reaches, users before their arguments."""
        found = dict.fromkeys(roots)
        stack = list(found)
        while stack:
            node = stack.pop()
            yield node
            new = [a for a in self.of(node) if a not in found]
            found.update(dict.fromkeys(new))
            stack += new


def _is_clip(node: Node) -> bool:
    return node.op == "call" and not TABLE[node.name].linear


def _reached_arguments(name: str) -> tuple[bool, ...]:
    """For each argument of a function, whether its gradient reaches it."""
    import sympy

    row = TABLE[name]
    d, y, *arguments = sympy.symbols(("d", "y", *row.arguments))
    return tuple(part is not None for part in row.pullback(d, y, *arguments))
