"""Names for shared values in the text of expressions.

Most expressions are written out. If the text would be too long, because values are shared, or too
deep for parsers, then shared and deep values become statements with names. Values that are normed
together always do. A text that is read back as the same cell also names each call with a tag that
would be written twice, because reading it twice would make two nodes. A loop is a statement of its
own. Its results have names, and so do the values that it starts from and those that its body reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from .graph import uses
from .lines import INDENT
from .loops import body_of, carried, results_of, starts_of, unchanged, unchanged_of
from .node import Node, ordered
from .spell import ATOM, PYTHON, spell_node

#: The greatest depth of brackets in a text; Python's parser reads about 90.
_DEPTH = 40
#: The most nodes that a text may repeat before its shared values get names.
_REPEATED = 2000
#: The most letters of a name of a value.
LONGEST_NAME = 40
#: Nodes that are written as parts of a statement of their own.
LOOPS = ("repeat", "unwind", "result")


@dataclass(frozen=True)
class Named:
    """A value that is written as a statement.

    Attributes:
        name: of the author's variable, else t0, t1, …, which nothing declared may have.
        node: the value.
    """

    name: str
    node: Node


@dataclass(frozen=True)
class Loop:
    """A loop, which is written as statements of its own.

    Attributes:
        node: the `"repeat"` node.
        names: of the carried values, also after the last pass.
        body: the statements of a pass and the carried values after it.
    """

    node: Node
    names: tuple[str, ...]
    body: Naming

    @property
    def passes(self) -> int:
        """Number of times that the body runs."""
        return body_of(self.node).passes

    @property
    def starts(self) -> tuple[Node, ...]:
        """The carried values before the first pass."""
        return starts_of(self.node)


@dataclass(frozen=True)
class Naming:
    """Form in which expressions are written: statements, then the expressions.

    Attributes:
        statements: in the order of the text.
        roots: the expressions.
        names: of all values that may be written as a name here, those of outer statements too.
        symbols: in the body of a loop, the symbols of the cell that symbols of the body stand for.
    """

    statements: tuple[Named | Loop, ...]
    roots: tuple[Node, ...]
    names: Mapping[Node, str]
    symbols: Mapping[Node, Node]

    def named(
        self, value: Callable[[str], str] = str, symbol: Callable[[str], str] = str
    ) -> Mapping[Node, str]:
        """All names as text: those of values, and those of the cell's symbols.

        Args:
            value: writes the name of a value.
            symbol: writes that of a symbol.
        """
        values = {node: value(name) for node, name in self.names.items()}
        return values | {node: symbol(own.name) for node, own in self.symbols.items()}


class TemporaryNames:
    """Names for values: those of the author's variables, else t0, t1, …."""

    def __init__(self, variables: Mapping[Node, str], used: Iterable[str] = ()) -> None:
        self.variables = variables
        self.used = {*used}
        self.count = 0

    def of(self, node: Node | None = None, wish: str = "") -> str:
        """A name that no other value has: the wish, that of the variable, or t with a number."""
        name = wish
        if node is not None and (not name or name in self.used):
            name = self.variables.get(node, "")
        while not name or name in self.used:
            name = f"t{self.count}"
            self.count += 1
        self.used.add(name)
        return name


def naming(
    roots: Iterable[Node],
    exact: bool = False,
    variables: Mapping[Node, str] | None = None,
    width: int | None = None,
) -> Naming:
    """The statements that are written before some expressions, and the names of their values.

    There are none if the expressions can be written out.

    Args:
        roots: the expressions.
        exact: whether each value of a variable gets a name, and each node with a tag that would be
            written twice.
        variables: names of nodes.
        width: the most letters of a text; None for any number.
    """
    writer = _Writer(exact, width, variables or {})
    return writer.naming(tuple(roots), {}, {}, TemporaryNames(variables or {}))


@dataclass(frozen=True)
class _Writer:
    """Writer of all scopes."""

    exact: bool
    width: int | None
    variables: Mapping[Node, str]

    def naming(
        self,
        roots: tuple[Node, ...],
        outer: Mapping[Node, str],
        symbols: Mapping[Node, Node],
        free: TemporaryNames,
    ) -> Naming:
        """The naming of a scope, given the names that it begins with, and those that are free."""
        nodes = ordered(roots)
        loops = [node for node in nodes if node.op == "repeat"]
        found = {argument for loop in loops for argument in loop.args if not argument.is_leaf}
        # Values that are normed together are written once, and then each by its place.
        members = Counter(node.args[0] for node in nodes if node.op == "member")
        found |= {together for together, count in members.items() if count > 1}
        if not _is_moderate(roots, nodes):
            found.update(worth_a_name(roots))
        if outer and len(roots) > 1:
            # The carried values change together, so each new one is computed before.
            found.update(root for root in roots if not root.is_leaf)
        own = {node for node in nodes if node in self.variables}
        if self.exact:
            found |= own
            found |= _written_again(nodes, roots, found)
        before = {*free.used}, free.count
        written = self._written(roots, nodes, found, outer, symbols, free)
        named = sum(isinstance(statement, Named) for statement in written.statements)
        if self.width is not None and named > sum(node.op not in LOOPS for node in found):
            # An author's names are better places to cut a text than others.
            free.used, free.count = before
            found |= own - set(roots)
            written = self._written(roots, nodes, found, outer, symbols, free)
        return written

    def _written(
        self,
        roots: tuple[Node, ...],
        nodes: list[Node],
        found: set[Node],
        outer: Mapping[Node, str],
        symbols: Mapping[Node, Node],
        free: TemporaryNames,
    ) -> Naming:
        """The naming of a scope with names for some nodes, and others where a text is too long."""
        names, statements = dict(outer), list[Named | Loop]()
        texts = {node: (name, ATOM) for node, name in outer.items()}
        texts |= {node: (symbol.name, ATOM) for node, symbol in symbols.items()}

        def name(node: Node) -> None:
            names[node] = free.of(node)
            texts[node] = names[node], ATOM
            statements.append(Named(names[node], node))

        for node in nodes:
            if node.op == "repeat":
                own = tuple(free.of(result) for result in results_of(node))
                names |= zip(results_of(node), own, strict=True)
                texts |= {result: (names[result], ATOM) for result in results_of(node)}
                body = self._body(node, own, names, symbols, free)
                statements.append(Loop(node, own, body))
            elif node.op != "result" and node not in texts:
                if self.width is not None:
                    texts[node] = spell_node(node, [texts[a] for a in node.args], PYTHON)
                    for argument in longest_first(node, texts, names):
                        if len(texts[node][0]) <= self.width:
                            break
                        name(argument)
                        texts[node] = spell_node(node, [texts[a] for a in node.args], PYTHON)
                if node in found:
                    name(node)
        return Naming(tuple(statements), roots, names, symbols)

    def _body(
        self,
        loop: Node,
        own: tuple[str, ...],
        outer: Mapping[Node, str],
        symbols: Mapping[Node, Node],
        free: TemporaryNames,
    ) -> Naming:
        names: dict[Node, str] = {carried(i): name for i, name in enumerate(own)}
        leaves: dict[Node, Node] = {}
        for i, value in enumerate(unchanged_of(loop)):
            if value in outer:
                names[unchanged(i)] = outer[value]
            else:
                leaves[unchanged(i)] = symbols.get(value, value)
        inner = self if self.width is None else replace(self, width=self.width - INDENT)
        return inner.naming(body_of(loop).roots, names, leaves, free)


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


def _written_again(nodes: list[Node], roots: Iterable[Node], named: Iterable[Node]) -> set[Node]:
    """The nodes with a tag that are written more than once if only `named` have names."""
    once = {*named}
    written = Counter(roots)
    for node in reversed(nodes):
        if node.tag is not None and written[node] > 1:
            once.add(node)
        for argument in node.args:
            # 2 stands for any larger number, because the number of paths grows without bound.
            written[argument] = min(2, written[argument] + (1 if node in once else written[node]))
    return {node for node in once if node.tag is not None}


def worth_a_name(roots: Iterable[Node], depth: int = _DEPTH) -> list[Node]:
    """The nodes that are used more than once, and some nodes of chains that are too deep, in order.

    A root is included only if it is an argument too. Leaves, negated named values and loops are
    not, but values that no pass of a loop changes are.
    """
    roots = list(roots)
    counts = uses(roots)
    found: dict[Node, None] = {}
    depths: dict[Node, int] = {}
    nodes = ordered(roots)
    read = {a for node in nodes if node.op == "repeat" for a in unchanged_of(node)}
    for node in nodes:
        depths[node] = 1 + max((depths[a] for a in node.args), default=-1)
        if node.op in LOOPS:
            depths[node] = 0
            continue
        if node.is_leaf or not counts[node]:
            continue
        sign = node.op == "neg" and (node.args[0].is_leaf or node.args[0] in found)
        shared = counts[node] > 1 and not sign
        if shared or node in read or depths[node] >= depth:
            found[node] = None
            depths[node] = 0
    return list(found)


def _is_moderate(roots: tuple[Node, ...], nodes: list[Node]) -> bool:
    sizes: dict[Node, int] = {}
    depths: dict[Node, int] = {}
    for node in nodes:
        inner = () if node.op in LOOPS else node.args
        sizes[node] = 1 + sum(sizes[a] for a in inner)
        depths[node] = 1 + max((depths[a] for a in inner), default=-1)
    repeated = sum(sizes[r] for r in roots) - len(sizes)
    return repeated <= _REPEATED and all(depths[r] <= _DEPTH for r in roots)
