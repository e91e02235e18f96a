"""Names for shared values in the text of expressions.

Most expressions are written out. If the text would be too long, because values are shared, or too
deep for parsers, then shared and deep values become statements with names. A text that is read back
as the same cell also names each call with a tag that would be written twice, because reading it
twice would make two nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from .graph import uses
from .node import Node, ordered
from .spell import ATOM, PYTHON, spell_node

#: The greatest depth of brackets in a text; Python's parser reads about 90.
_DEPTH = 40
#: The most nodes that a text may repeat before its shared values get names.
_REPEATED = 2000
#: The most letters of a printed line: a name, " = " and the text of a value.
LONGEST_LINE = 160


def named_values(
    roots: Iterable[Node], variables: Mapping[Node, str] | None = None, width: int | None = None
) -> dict[Node, str]:
    """The nodes that are written as statements before the roots, in order, with their names.

    The result is empty if the expressions can be written out.

    Args:
        roots: the expressions.
        variables: names of nodes; others have the names t0, t1, …, which nothing declared may have.
        width: the most letters of a text; None for any number.
    """
    roots, variables = list(roots), variables or {}
    found = () if _is_moderate(roots) else worth_a_name(roots)
    if width is not None:
        once = _narrow(roots, found, variables, width)
        if len(once) > len(found):
            # An author's names are better places to cut a text than others.
            own = {*found, *(n for n in ordered(roots) if n in variables and n not in roots)}
            once = _narrow(roots, own, variables, width)
        return once
    return _named(found, variables)


def exactly_named_values(
    roots: Iterable[Node], variables: Mapping[Node, str] | None = None
) -> dict[Node, str]:
    """The nodes of `named_values`, those of variables, and those that a text must name.

    These have a tag, and would be written twice.

    Args:
        roots: the expressions.
        variables: names of nodes, as for `named_values`.
    """
    roots, variables = list(roots), variables or {}
    known = {**named_values(roots), **variables}
    found = {*known, *_written_again(roots, known)}
    return _named((n for n in ordered(roots) if n in found), variables)


class TemporaryNames:
    """Names for values: those of the author's variables, else t0, t1, …."""

    def __init__(self, variables: Mapping[Node, str], used: Iterable[str] = ()) -> None:
        self.variables = variables
        self.used = {*used}
        self.count = 0

    def of(self, node: Node, wish: str = "") -> str:
        """A name that no other value has: the wish, that of the variable, or t with a number."""
        name = wish
        if not name or name in self.used:
            name = self.variables.get(node, "")
        while not name or name in self.used:
            name = f"t{self.count}"
            self.count += 1
        self.used.add(name)
        return name


def _named(nodes: Iterable[Node], variables: Mapping[Node, str]) -> dict[Node, str]:
    names = TemporaryNames(variables)
    return {node: names.of(node) for node in nodes}


def _narrow(
    roots: list[Node], first: Iterable[Node], variables: Mapping[Node, str], width: int
) -> dict[Node, str]:
    """Names for some nodes, and for as many others as narrow texts need."""
    names, first = TemporaryNames(variables), {*first}
    found: dict[Node, str] = {}
    texts: dict[Node, tuple[str, int]] = {}
    for node in ordered(roots):
        texts[node] = spell_node(node, [texts[a] for a in node.args], PYTHON)
        for argument in longest_first(node, texts, found):
            if len(texts[node][0]) <= width:
                break
            found[argument] = names.of(argument)
            texts[argument] = found[argument], ATOM
            texts[node] = spell_node(node, [texts[a] for a in node.args], PYTHON)
        if node in first:
            found[node] = names.of(node)
            texts[node] = found[node], ATOM
    return found


def longest_first(
    node: Node, texts: Mapping[Node, tuple[str, int]], named: Container[Node]
) -> list[Node]:
    """The operands of a node that could get a name, those with the longest text first.

    Args:
        node: the node.
        texts: of its operands, with their precedence.
        named: the nodes that have a name.
    """
    without = (a for a in dict.fromkeys(node.args) if a.args and a not in named)
    return sorted(without, key=lambda a: -len(texts[a][0]))


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
