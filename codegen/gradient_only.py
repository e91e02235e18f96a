"""What only a gradient needs, left out of values: `with_gradient(value, of)` is its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..cellspec.expression.node import Node, make, ordered


def known_values(roots: Iterable[Node], known: Mapping[Node, Node]) -> dict[Node, Node]:
    """The known nodes, and each `with_gradient` with what its value is computed from.

    Args:
        roots: the expressions.
        known: replacements for nodes that are already computed; they count in the values too.

    Returns:
        Replacements for `rewritten`.
    """
    found = dict(known)
    new: dict[Node, Node] = {}
    for node in ordered(roots):
        if node in known:
            new[node] = known[node]
        elif node.op == "call" and node.name == "with_gradient":
            new[node] = found[node] = new[node.args[0]]
        else:
            args = tuple(new[a] for a in node.args)
            new[node] = node if args == node.args else make(node.op, node.value, args, node.tag)
    return found
