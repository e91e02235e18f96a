"""Walks over expressions: replace nodes, renumber tags, count calls and uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count

from .node import Node, make, ordered


def rewritten(roots: Iterable[Node], known: Mapping[Node, Node]) -> list[Node]:
    """The roots with each known node replaced, also if it is a root."""
    roots = list(roots)
    new: dict[Node, Node] = {}
    for node in ordered(roots, stop=known):
        args = node.args
        if node in known:
            new[node] = known[node]
        elif args:
            now = tuple(new[a] for a in args)
            new[node] = node if now == args else make(node.op, node.value, now, node.tag)
        else:
            new[node] = node
    return [new[root] for root in roots]


def with_canonical_tags(roots: Iterable[Node]) -> tuple[Node, ...]:
    """The roots with tags 0, 1, … in the order of first appearance.

    Expressions that differ only in their tags become the same nodes.
    """
    roots = tuple(roots)
    new = canonical_nodes(roots)
    return tuple(new[root] for root in roots)


def canonical_nodes(roots: Iterable[Node]) -> dict[Node, Node]:
    """For each node below the roots, what `with_canonical_tags` makes of it."""
    tags = count()
    new: dict[Node, Node] = {}
    for node in ordered(roots):
        tag = None if node.tag is None else next(tags)
        now = tuple(new[a] for a in node.args)
        same = now == node.args and tag == node.tag
        new[node] = node if same else make(node.op, node.value, now, tag)
    return new


def calls(roots: Iterable[Node]) -> set[str]:
    """The names of the functions that expressions call."""
    return {node.name for node in ordered(roots) if node.op == "call"}


def uses(roots: Iterable[Node]) -> Counter[Node]:
    """How often each node is an argument below the roots; being a root is not a use."""
    return Counter(a for node in ordered(roots) for a in node.args)
