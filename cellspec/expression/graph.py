"""Walks over expressions: replace nodes, renumber tags, count calls and uses.

A loop's body is closed. Unless a function says otherwise, it sees the loop and not the body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count

from .body import Body
from .node import Node, make, ordered


def with_args(node: Node, args: tuple[Node, ...]) -> Node:
    """The operation of a node on other arguments."""
    return node if args == node.args else make(node.op, node.value, args, node.tag)


def rewritten(roots: Iterable[Node], known: Mapping[Node, Node]) -> list[Node]:
    """The roots with each known node replaced, also if it is a root."""
    roots = list(roots)
    new: dict[Node, Node] = {}
    for node in ordered(roots, stop=known):
        new[node] = known.get(node) or with_args(node, tuple(new[a] for a in node.args))
    return [new[root] for root in roots]


def everywhere(roots: Iterable[Node]) -> list[Node]:
    """The nodes of `ordered` with those of bodies, which come before their loop."""
    found: dict[Node, None] = {}
    for node in ordered(roots):
        if isinstance(node.value, Body):
            found.update(dict.fromkeys(everywhere(node.value.roots)))
        found[node] = None
    return list(found)


def with_canonical_tags(roots: Iterable[Node]) -> tuple[Node, ...]:
    """The roots with tags 0, 1, … in the order of first appearance, also in bodies.

    Expressions that differ only in their tags become the same nodes.
    """
    roots = tuple(roots)
    new = canonical_nodes(roots)
    return tuple(new[root] for root in roots)


def canonical_nodes(roots: Iterable[Node]) -> dict[Node, Node]:
    """For each node below the roots, what `with_canonical_tags` makes of it."""
    tags = count()
    new: dict[Node, Node] = {}
    for node in everywhere(roots):
        tag = None if node.tag is None else next(tags)
        now, value = tuple(new[a] for a in node.args), node.value
        if isinstance(value, Body):
            value = Body(value.passes, tuple(new[root] for root in value.roots))
        same = now == node.args and tag == node.tag and value == node.value
        new[node] = node if same else make(node.op, value, now, tag)
    return new


def calls(roots: Iterable[Node]) -> set[str]:
    """The names of the functions that expressions call, also in bodies."""
    return {node.name for node in everywhere(roots) if node.op == "call"}


def uses(roots: Iterable[Node]) -> Counter[Node]:
    """Return how often each node is an argument below the roots; being a root is not a use."""
    return Counter(a for node in ordered(roots) for a in node.args)
