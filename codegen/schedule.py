"""`schedule`: orders values into statements, and shared values into temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..cellspec.expression.node import Node, make, ordered, symbol
from ..cellspec.expression.sharing import (
    LONGEST_LINE,
    TemporaryNames,
    longest_first,
    worth_a_name,
)
from ..cellspec.expression.spell import ATOM, PYTHON, spell_node
from ..cellspec.functions import TABLE
from .origins import Origins, joined
from .program import Program, Statement, symbols_of


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
    owners: dict[Node, str] = {}
    for name, value in results.items():
        if not value.is_leaf:
            owners.setdefault(value, name)
    shared = {*worth_a_name(results.values()), *owners}
    names = _Names({*taken, *constants, *outputs}, wishes or {}, variables or {})
    symbols: dict[Node, Node] = {}
    short: dict[Node, Node] = {}
    texts: dict[Node, tuple[str, int]] = {}
    carried = _Carried(origins or {})
    statements = []

    def state(node: Node) -> None:
        """Give a value a statement of its own."""
        body = short[node]
        target = outputs[owners[node]] if node in owners else names.of(node, body)
        symbols[node], texts[node] = target, (target.name, ATOM)
        statements.append(Statement(target, body, carried.end(node, body, target)))

    for node in ordered([*first, *results.values()]):
        same = _difference_of_itself(node)
        of = node if same is None else make("-", None, (same, same))
        texts[node] = spell_node(of, [texts[a] for a in of.args], PYTHON)
        for argument in longest_first(of, texts, symbols):
            if len(texts[node][0]) <= _LONGEST_TEXT:
                break
            state(argument)
            texts[node] = spell_node(of, [texts[a] for a in of.args], PYTHON)
        args = tuple(symbols.get(a) or short[a] for a in of.args)
        short[node] = of if args == of.args else make(of.op, of.value, args, of.tag)
        carried.add(node, of.args)
        if node in shared:
            state(node)
    for name, value in results.items():
        if owners.get(value) != name:
            # A number, an input, or the value of another output.
            terms = carried.terms.get(value, ())
            statements.append(Statement(outputs[name], symbols.get(value, value), terms))
    inputs = symbols_of(s.value for s in statements) - {s.target for s in statements}
    return Program(
        inputs=tuple(sorted((s for s in inputs if s.name not in constants), key=str)),
        statements=tuple(statements),
        outputs=tuple(outputs.values()),
        named_after=carried.named_after,
    )


class _Carried:
    """The terms of each value that has no name yet, and those that a name shows.

    Attributes:
        terms: by node, the terms of all that a statement up to this node writes.
        named_after: by name, the terms that it shows, as `sigmoid_f` does.
    """

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.terms: dict[Node, tuple[Node, ...]] = {}
        self.named_after = {n.name: terms for n, terms in origins.items() if n.is_symbol}

    def add(self, node: Node, args: tuple[Node, ...]) -> None:
        """Collect the terms of a node and of its arguments up to their names."""
        below = [self.terms[a] if a in self.terms else self.origins.get(a, ()) for a in args]
        self.terms[node] = joined([*below, self.origins.get(node, ())])

    def end(self, node: Node, body: Node, target: Node) -> tuple[Node, ...]:
        """The terms of the statement of a node. Its users begin with what its name shows."""
        found = self.terms[node]
        shown: list[tuple[Node, ...]] = []
        if body.op == "call" and target.name.startswith(f"{body.name}_"):
            inner = [self.named_after.get(a.name, ()) for a in body.args if a.is_symbol]
            shown = [self.origins.get(node, ()), *inner]
        self.terms[node] = self.named_after[target.name] = joined(shown)
        return found


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
    while node.op == "call" and TABLE[node.name].identity:
        node = node.args[0]
    return node


#: Longer names, as of a function of a function of …, become `t0`, `t1`, ….
_LONGEST_NAME = 40


#: The most letters of a statement's value, so that its line is not too long.
_LONGEST_TEXT = LONGEST_LINE - _LONGEST_NAME - len(" = ")


class _Names:
    """Names for temporaries; a function of one symbol is named after both."""

    def __init__(
        self, used: set[str], wishes: Mapping[Node, str], variables: Mapping[Node, str]
    ) -> None:
        self.names = TemporaryNames(variables, used)
        self.wishes = wishes

    def of(self, node: Node, body: Node) -> Node:
        """A free name for a value that is computed as `body`."""
        wish = self.wishes.get(node, "")
        if not wish and body.op == "call" and len(body.args) == 1 and body.args[0].is_symbol:
            assert body.name in TABLE
            wish = f"{body.name}_{body.args[0].name}"
        return symbol(self.names.of(node, wish if len(wish) <= _LONGEST_NAME else ""))
