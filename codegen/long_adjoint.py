"""The adjoint of a long pointwise map, as of an unrolled loop: each node is pulled back by itself.

sympy sees each kind of operation once, with symbols for its operands. What came of it is repeated
as nodes for each node of that kind, so that the time grows with the number of nodes and no faster.
Nothing is rearranged or searched for common parts. Equal nodes are still one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce

import sympy

from ..cellspec.expression.graph import rewritten
from ..cellspec.expression.loops import starts_of, unwound
from ..cellspec.expression.node import Node, Value, binary, make, negative, number, ordered, symbol
from ..cellspec.expression.symbolic import factored, from_sympy
from ..cellspec.functions import TABLE
from .adjoint import Adjoint, Reverse
from .adjoint_loops import pulled_back_body
from .origins import Origins, joined


def long_adjoint(
    results: Mapping[str, Node], wanted: Iterable[str], known: Mapping[Node, Node]
) -> Adjoint:
    """Cotangents of symbols from cotangents of results, as `adjoint` gives them.

    Args:
        results: each result's name and value.
        wanted: names of symbols.
        known: replacements for nodes that are already computed.
    """
    with factored():
        return _LongReverse(results, tuple(wanted), known).adjoint()


@dataclass(frozen=True)
class _Recipe:
    """Recipe by which a node of a kind makes the cotangents of its operands.

    Attributes:
        given: numbers that come after its operands, its value and its cotangent.
        steps: what is made then: an operation, its value, and the places of its arguments in all
            that came before.
        shares: the place of each operand's cotangent; None where it is zero.
    """

    given: tuple[Node, ...]
    steps: tuple[tuple[str, Value, tuple[int, ...]], ...]
    shares: tuple[int | None, ...]


class _LongReverse(Reverse):
    def __init__(
        self, results: Mapping[str, Node], wanted: tuple[str, ...], known: Mapping[Node, Node]
    ) -> None:
        super().__init__(results, wanted, known)
        self.recipes: dict[Node, _Recipe] = {}
        self.made: dict[Node, dict[Node, None]] = {}  # by node, the terms that it was made for
        self.inside: dict[Node, tuple[Node, ...]] = {}  # the terms of nodes in the bodies of loops

    def adjoint(self) -> Adjoint:
        nodes = ordered(self.results.values())
        computed = dict(zip(nodes, rewritten(nodes, self.known), strict=True))
        active = self.active(nodes)
        shares: dict[Node, list[Node]] = {node: [] for node in active}
        names: dict[Node, str] = {}
        for name, value in self.results.items():
            if value in active:
                shares[value].append(symbol(f"d_{name}"))
                names.setdefault(value, name)
        sums: dict[Node, str] = {}
        ends: dict[Node, dict[Value, Node]] = {}  # by loop, the cotangents of its results
        for node in reversed([n for n in nodes if n in active and not n.is_leaf]):
            if node in ends:
                for argument, gradient in self._unwound(node, computed, ends[node], active):
                    shares[argument].append(gradient)
            total = _sum(shares[node])
            if total is None:
                continue
            if node.op == "result":
                ends.setdefault(node.args[0], {})[node.value] = total
                continue
            if node in names and not total.is_leaf:
                sums[total] = f"d_{names[node]}_sum"
            for argument, share in zip(node.args, self._shares(node, computed, total), strict=True):
                if share is not None and argument in active:
                    shares[argument].append(share)
        totals = {name: _sum(shares.get(symbol(name), [])) for name in self.wanted}
        gradients = {name: total or number(0) for name, total in totals.items()}
        return Adjoint(gradients, sums, self._all_origins())

    def _unwound(
        self,
        loop: Node,
        computed: Mapping[Node, Node],
        ends: Mapping[Value, Node],
        active: Collection[Node],
    ) -> Iterator[tuple[Node, Node]]:
        """The active arguments of a loop, each with its cotangent."""
        arguments, roots, origins = pulled_back_body(loop, active)
        self.inside |= origins
        cotangents = [ends.get(place, number(0)) for place in range(len(starts_of(loop)))]
        results = unwound(computed[loop], cotangents, roots)
        pairs = zip(arguments, results, strict=True)
        return ((argument, share) for argument, share in pairs if argument in active)

    def _shares(self, node: Node, computed: Mapping[Node, Node], total: Node) -> list[Node | None]:
        """The cotangents of a node's operands; None where they are zero."""
        recipe = self._recipe(node)
        # A sign passes whatever is linear, and is written once.
        signed = total.op == "neg" and (node.op != "call" or TABLE[node.name].linear)
        cotangent = total.args[0] if signed else total
        values = [*(computed[a] for a in node.args), computed[node], cotangent, *recipe.given]
        for op, value, places in recipe.steps:
            new = make(op, value, tuple([values[place] for place in places]))
            self.made.setdefault(new, {})[node] = None
            values.append(new)
        shares = [None if place is None else values[place] for place in recipe.shares]
        return [_negated(share) if share is not None and signed else share for share in shares]

    def _recipe(self, node: Node) -> _Recipe:
        args = tuple(a if a.is_number else symbol(f"~{i}") for i, a in enumerate(node.args))
        kind = make(node.op, node.value, args)
        if kind not in self.recipes:
            self.recipes[kind] = _recipe_of(kind)
        return self.recipes[kind]

    def _all_origins(self) -> Origins:
        found = {**self.inside, **self.recomputed()}
        for node, terms in self.made.items():
            found[node] = joined([found.get(node, ()), tuple(terms)])
        return found


def _recipe_of(kind: Node) -> _Recipe:
    """The recipe of a node whose operands are numbers, and symbols that stand for the others."""
    reverse, cotangent = Reverse({}, (), {}), sympy.Symbol("~d")
    pulled_back = reverse.pulled_back(kind, kind.args, cotangent)
    known = {stand_in: node for stand_in, node in reverse.behind.items() if node.is_number}
    for bound, definition in reverse.definitions.items():
        known[bound] = from_sympy(definition, known)
    shares = [None if share is None else from_sympy(share, known) for share in pulled_back]
    operands = [*kind.args, symbol(reverse.values[kind].name), symbol(cotangent.name)]
    nodes = ordered(share for share in shares if share is not None)
    given = tuple(node for node in nodes if node.is_leaf and node not in operands)
    made = [node for node in nodes if not node.is_leaf]
    places = {node: place for place, node in enumerate([*operands, *given, *made])}
    return _Recipe(
        given,
        tuple((node.op, node.value, tuple(places[a] for a in node.args)) for node in made),
        tuple(None if s is None or s is number(0) else places[s] for s in shares),
    )


def _sum(shares: list[Node]) -> Node | None:
    """The sum, with its positive terms first, which saves a sign; None if it is zero."""
    counts: dict[Node, int] = {}
    for share in shares:
        positive = share.op != "neg"
        term = share if positive else share.args[0]
        counts[term] = counts.get(term, 0) + (1 if positive else -1)
    plus = [_times(count, term) for term, count in counts.items() if count > 0]
    minus = [_times(-count, term) for term, count in counts.items() if count < 0]
    if not plus:
        return negative(reduce(partial(binary, "+"), minus)) if minus else None
    return reduce(partial(binary, "-"), minus, reduce(partial(binary, "+"), plus))


def _times(count: int, term: Node) -> Node:
    return term if count == 1 else binary("*", number(count), term)


def _negated(node: Node) -> Node:
    return node.args[0] if node.op == "neg" else negative(node)
