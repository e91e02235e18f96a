"""Names for shared values in the text of expressions.

Most expressions are written out. If the text would be too long, because values are shared, or too
deep for parsers, then shared and deep values become statements with names. A text that is read back
as the same cell also names each call with a tag that would be written twice, because reading it
twice would make two nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .graph import uses
from .node import Node, ordered

#: The greatest depth of brackets in a text; Python's parser reads about 90.
_DEPTH = 40
#: The most nodes that a text may repeat before its shared values get names.
_REPEATED = 2000


def named_values(roots: Iterable[Node]) -> dict[Node, str]:
    """The nodes that are written as statements before the roots, in order, with their names.

    The names are t0, t1, …, which no gate, state, param or constant may have. The result is empty
    if the expressions can be written out.
    """
    roots = list(roots)
    if _is_moderate(roots):
        return {}
    return {node: f"t{i}" for i, node in enumerate(worth_a_name(roots))}


def exactly_named_values(roots: Iterable[Node]) -> dict[Node, str]:
    """The nodes of `named_values`, and each node with a tag that would be written twice."""
    roots = list(roots)
    known = named_values(roots)
    found = {*known, *_written_again(roots, known)}
    return {n: f"t{i}" for i, n in enumerate(n for n in ordered(roots) if n in found)}


def _written_again(roots: list[Node], named: Iterable[Node]) -> set[Node]:
    """The nodes with a tag that are written more than once if only `named` have names."""
    once = {*named}
    written = Counter(roots)
    for node in reversed(ordered(roots)):
        if node.tag is not None and written[node] > 1:
            once.add(node)
        for argument in node.args:
            # 2 stands for any larger number, because the number of paths grows without bound.
            written[argument] = min(2, written[argument] + (1 if node in once else written[node]))
    return {node for node in once if node.tag is not None}


def worth_a_name(roots: Iterable[Node], depth: int = _DEPTH) -> list[Node]:
    """The nodes that are used more than once, and some nodes of chains that are too deep, in order.

    A root is included only if it is an argument too. Leaves and negated named values are not.
    """
    roots = list(roots)
    counts = uses(roots)
    found: dict[Node, None] = {}
    depths: dict[Node, int] = {}
    for node in ordered(roots):
        depths[node] = 1 + max((depths[a] for a in node.args), default=-1)
        if node.is_leaf or not counts[node]:
            continue
        sign = node.op == "neg" and (node.args[0].is_leaf or node.args[0] in found)
        if (counts[node] > 1 and not sign) or depths[node] >= depth:
            found[node] = None
            depths[node] = 0
    return list(found)


def _is_moderate(roots: list[Node]) -> bool:
    sizes: dict[Node, int] = {}
    depths: dict[Node, int] = {}
    for node in ordered(roots):
        sizes[node] = 1 + sum(sizes[a] for a in node.args)
        depths[node] = 1 + max((depths[a] for a in node.args), default=-1)
    repeated = sum(sizes[r] for r in roots) - len(sizes)
    return repeated <= _REPEATED and all(depths[r] <= _DEPTH for r in roots)
