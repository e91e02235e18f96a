"""Parts of values that only a gradient needs, left out: `with_gradient(value, of)` is its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..cellspec.expression.body import Body
from ..cellspec.expression.graph import rewritten
from ..cellspec.expression.node import Node, make, ordered


def known_values(
    roots: Iterable[Node], known: Mapping[Node, Node] = MappingProxyType({})
) -> dict[Node, Node]:
    """The known nodes, and each `with_gradient` with what its value is computed from, in loops too.

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
            args, value = tuple(new[a] for a in node.args), node.value
            if isinstance(value, Body):
                value = Body(value.passes, tuple(rewritten(value.roots, known_values(value.roots))))
            same = args == node.args and value == node.value
            new[node] = node if same else make(node.op, value, args, node.tag)
            if value != node.value:
                found[node] = new[node]
    return found
