"""`schedule`: orders values into statements, and shared values into temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from ..cellspec.expression.body import Body
from ..cellspec.expression.lines import LONGEST_LINE
from ..cellspec.expression.loops import (
    body_of,
    carried,
    cotangent,
    results_of,
    running_sum,
    starts_of,
    unchanged,
    unchanged_of,
)
from ..cellspec.expression.node import Node, make, number, ordered, symbol
from ..cellspec.expression.sharing import (
    LONGEST_NAME,
    TemporaryNames,
    longest_first,
    worth_a_name,
)
from ..cellspec.expression.spell import ATOM, PYTHON, spell_node
from ..cellspec.functions import TABLE
from ..cellspec.functions.nodes import is_identity
from .origins import Origins, Terms
from .program import (
    AnyStatement,
    Loop,
    Program,
    Statement,
    Unwinding,
    symbols_of,
    targets_of,
    values_of,
)


def schedule(
    results: Mapping[str, Node],
    *,
    constants: Iterable[str],
    taken: Iterable[str],
    wishes: Mapping[Node, str] | None = None,
    variables: Mapping[Node, str] | None = None,
    first: Iterable[Node] = (),
    origins: Origins | None = None,
) -> Program:
    """Order values into a program that computes each shared value once.

    Args:
        results: each output's name and value.
        constants: symbols that are not inputs, because the source has them as numbers.
        taken: names that temporaries must not have.
        wishes: preferred names of some values.
        variables: names of values in place of `t0`, `t1`, ….
        first: results, or parts of results, that are computed before the others.
        origins: the terms of the equations that nodes came from.

    Returns:
        The program; temporaries have names such as `sigmoid_f`, those of variables, or `t0`, `t1`,
        ….
    """
    constants = set(constants)
    outputs = {name: symbol(name) for name in results}
    owners: dict[Node, Node] = {}
    for name, value in results.items():
        if not value.is_leaf:
            owners.setdefault(value, outputs[name])
    # A saved function of a gate has a name such as `tanh_g`, which a variable may have too.
    read = {value.name for value in symbols_of(results.values())}
    names = _Names({*taken, *constants, *outputs, *read}, wishes or {}, variables or {})
    scope = _Scope(names, Terms(origins or {}), {})
    shared = {*worth_a_name(results.values()), *owners}
    statements = scope.statements((*first, *results.values()), shared, owners)
    for name, value in results.items():
        if owners.get(value) is not outputs[name]:
            # A number, an input, or the value of another output.
            terms = scope.terms.of.get(value, ())
            statements.append(Statement(outputs[name], scope.symbols.get(value, value), terms))
    inputs = symbols_of(values_of(statements)) - set(targets_of(statements))
    return Program(
        inputs=tuple(sorted((s for s in inputs if s.name not in constants), key=str)),
        statements=tuple(statements),
        outputs=tuple(outputs.values()),
        named_after=scope.terms.named_after,
    )


class _Scope:
    """The values of a program, or of the body of a loop, as they are written.

    Attributes:
        names: of the whole program.
        terms: of the values.
        symbols: by value, its name.
        written: by value, its name or its expression over names.
        texts: by value, what is written as text, with its precedence.
        loops: by node, the statement of a loop.
    """

    def __init__(self, names: _Names, terms: Terms, symbols: dict[Node, Node]) -> None:
        self.names = names
        self.terms = terms
        self.symbols = symbols
        self.written = dict(symbols)
        self.texts = {node: (target.name, ATOM) for node, target in symbols.items()}
        self.loops: dict[Node, Loop | Unwinding] = {}

    def statements(
        self, roots: Iterable[Node], shared: set[Node], owners: Mapping[Node, Node]
    ) -> list[AnyStatement]:
        """The statements that compute some values.

        Args:
            roots: the values, those first that are computed first.
            shared: the values that get names.
            owners: the targets of values that have a name already.
        """
        found: list[AnyStatement] = []
        nodes = ordered(roots)
        kept = {node.args[0] for node in nodes if node.op == "unwind"}
        for node in nodes:
            if node in self.written:
                continue
            if isinstance(node.value, Body):
                backwards = node.op == "unwind"
                loop = self._unwinding(node) if backwards else self._loop(node, node in kept)
                self.loops[node] = loop
                found.append(loop)
                continue
            if node.op == "result":
                self._take(node, found, owners)
                continue
            same = _difference_of_itself(node)
            of = node if same is None else make("-", None, (same, same))
            self.texts[node] = self._text(of)
            for argument in longest_first(of, self.texts, self.symbols):
                if len(self.texts[node][0]) <= _LONGEST_TEXT:
                    break
                found.append(self._state(argument, owners))
                self.texts[node] = self._text(of)
            args = tuple(self.written[a] for a in of.args)
            self.written[node] = of if args == of.args else make(of.op, of.value, args, of.tag)
            self.terms.add(node, of.args)
            if node in shared:
                found.append(self._state(node, owners))
        return found

    def _text(self, node: Node) -> tuple[str, int]:
        return spell_node(node, [self.texts[a] for a in node.args], PYTHON)

    def _state(self, node: Node, owners: Mapping[Node, Node]) -> Statement:
        """The statement of a value, which has a name from there on."""
        body = self.written[node]
        target = owners.get(node) or self.names.of(node, body)
        self._name(node, target)
        return Statement(target, body, self.terms.end(node, body, target))

    def _name(self, node: Node, target: Node) -> None:
        self.symbols[node] = self.written[node] = target
        self.texts[node] = target.name, ATOM

    def _take(self, node: Node, found: list[AnyStatement], owners: Mapping[Node, Node]) -> None:
        """Name the result of a loop."""
        assert isinstance(node.value, int)
        target = self.loops[node.args[0]].targets[node.value]
        self.terms.add(node, ())
        if node in owners:
            found.append(Statement(owners[node], target, self.terms.of[node]))
            target = owners[node]
        self._name(node, target)

    def _loop(self, node: Node, keeps: bool) -> Loop:
        starts = tuple(self.written[start] for start in starts_of(node))
        targets = tuple(self.names.of_result(result) for result in results_of(node))
        scope = self._inside(node, dict(zip(map(carried, count()), targets, strict=False)))
        statements, new = scope.body(body_of(node))
        return Loop(body_of(node).passes, targets, starts, statements, new, keeps)

    def _unwinding(self, node: Node) -> Unwinding:
        loop, *cotangents = node.args
        unwound = self.loops[loop]
        assert isinstance(unwound, Loop)
        sums = body_of(node).roots[len(cotangents) :]
        starts = (*(self.written[c] for c in cotangents), *(number(0) for _ in sums))
        targets = [self.names.fresh(f"d_{target}") for target in unwound.targets]
        targets += [self.names.fresh() for _ in sums]
        symbols = dict(zip(map(carried, count()), unwound.targets, strict=False))
        own = [*map(cotangent, range(len(cotangents))), *map(running_sum, range(len(sums)))]
        scope = self._inside(loop, symbols | dict(zip(own, targets, strict=True)))
        statements, new = scope.body(body_of(node))
        return Unwinding(unwound, tuple(targets), starts, statements, new)

    def _inside(self, loop: Node, symbols: dict[Node, Node]) -> _Scope:
        """The scope of a body, given the names of the symbols that only the body has.

        Args:
            loop: the `"repeat"` node, whose arguments the body may read.
            symbols: the names.
        """
        terms = Terms(self.terms.origins, self.terms.named_after)
        for place, value in enumerate(unchanged_of(loop)):
            symbols[unchanged(place)] = self.written[value]
            terms.of[unchanged(place)] = self.terms.of.get(value, ())
        return _Scope(self.names, terms, symbols)

    def body(self, body: Body) -> tuple[tuple[AnyStatement, ...], tuple[Node, ...]]:
        """The statements of a pass, and the carried values after it."""
        # The carried values change together, so each new one is computed before.
        new = {root for root in body.roots if not root.is_leaf}
        statements = self.statements(body.roots, {*worth_a_name(body.roots), *new}, {})
        return tuple(statements), tuple(self.written[root] for root in body.roots)


def _difference_of_itself(node: Node) -> Node | None:
    """The value x of an expression x - x whose sides differ only in their gradients; else None.

    `u - stop_gradient(u)` is a usual way to change the gradient of a value.
    """
    if node.op not in ("+", "-"):
        return None
    left, right = node.args
    if node.op == "+":
        if left.op == "neg":
            left, right = right, left
        if right.op != "neg":
            return None
        (right,) = right.args
    left, right = _without_gradient(left), _without_gradient(right)
    return left if left is right else None


def _without_gradient(node: Node) -> Node:
    while is_identity(node):
        node = node.args[0]
    return node


#: The most letters of a statement's value, so that its line is not too long.
_LONGEST_TEXT = LONGEST_LINE - LONGEST_NAME - len(" = ")


class _Names:
    """Names for temporaries; a function of one symbol is named after both."""

    def __init__(
        self, used: set[str], wishes: Mapping[Node, str], variables: Mapping[Node, str]
    ) -> None:
        self.names = TemporaryNames(variables, used)
        self.wishes = wishes

    def of(self, node: Node, body: Node) -> Node:
        """A free name for a value that is computed as `body`.

        Longer names, as of a function of a function of …, become `t0`, `t1`, ….
        """
        wish = self.wishes.get(node, "")
        if not wish and body.op == "call" and len(body.args) == 1 and body.args[0].is_symbol:
            assert body.name in TABLE
            wish = f"{body.name}_{body.args[0].name}"
        return symbol(self.names.of(node, wish if len(wish) <= LONGEST_NAME else ""))

    def of_result(self, result: Node) -> Node:
        """A free name for the result of a loop, which is the value that it carries too."""
        return symbol(self.names.of(result))

    def fresh(self, wish: str = "") -> Node:
        """A free name, if possible the one that is wished."""
        return symbol(self.names.of(wish=wish))
