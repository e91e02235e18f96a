"""The adjoint of a cell's pointwise map, by reverse mode over its nodes.

sympy sees one node at a time, with symbols for the node's arguments and value. It may rearrange and
share the sums and products of cotangents and these symbols. The forward's values, for which the
symbols stand, stay as their author wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sympy

from ..cellspec.expression.graph import rewritten, uses
from ..cellspec.expression.node import Node, ordered, symbol
from ..cellspec.expression.symbolic import factored, from_sympy
from ..cellspec.functions import TABLE
from .adjoint_loops import Unwound
from .inlining import inlined
from .origins import DerivativeOrigins, Origins, of_terms, rewritten_origins

#: The most statements in which sympy searches for common sums and products.
_LARGEST_SEARCH = 400
#: Products of more factors are differentiated two factors at a time.
_MOST_FACTORS = 8
#: sympy sees numbers beyond these magnitudes as symbols. A cotangent is multiplied by one such
#: number at a time, as in torch, because their product could overflow.
_TINY, _HUGE = 1e-8, 1e8


@dataclass(frozen=True)
class Adjoint:
    """The result of reverse mode.

    Attributes:
        gradients: the cotangent of each wanted symbol, in terms of the forward's values and the
            results' cotangents.
        sums: names for parts of the gradients, such as `d_c_sum` for the whole cotangent of a
            result.
        origins: the nodes of the results that nodes of the gradients came from.
    """

    gradients: dict[str, Node]
    sums: dict[Node, str]
    origins: Origins


def adjoint(
    results: Mapping[str, Node], wanted: Iterable[str], known: Mapping[Node, Node]
) -> Adjoint:
    """Cotangents of symbols from cotangents of results.

    Args:
        results: each result's name and value; the cotangent of `h_next` is the symbol `d_h_next`.
        wanted: names of symbols.
        known: replacements for nodes that are already computed.
    """
    with factored():
        return Reverse(results, tuple(wanted), known).adjoint()


class Reverse:
    """Reverse mode over the nodes of some results, as one computation."""

    def __init__(
        self, results: Mapping[str, Node], wanted: tuple[str, ...], known: Mapping[Node, Node]
    ) -> None:
        self.results = results
        self.wanted = wanted
        self.known = known
        self.uses = uses(results.values())
        self.values: dict[Node, sympy.Expr] = {}
        self.behind: dict[sympy.Symbol, Node] = {}
        self.definitions: dict[sympy.Symbol, sympy.Expr] = {}
        self.kept: set[sympy.Symbol] = set()  # definitions that are not inlined
        self.shares: list[tuple[Node, sympy.Expr]] = []  # each term with its operands' cotangents
        self.bound: dict[sympy.Symbol, Node] = {}  # the term of a definition
        self.loops = Unwound()

    def adjoint(self) -> Adjoint:
        """The cotangents of the wanted symbols."""
        nodes = ordered(self.results.values())
        active = self.active(nodes)
        shares: dict[Node, list[sympy.Expr]] = {node: [] for node in active}
        names: dict[Node, str] = {}
        for name, value in self.results.items():
            if value in shares:
                shares[value].append(sympy.Symbol(f"d_{name}"))
                names.setdefault(value, name)
        sums: dict[sympy.Symbol, str] = {}
        for node in reversed([n for n in nodes if n in active and not n.is_leaf]):
            if node.op == "repeat":
                for argument, share in self.loops.pulled_back(node, active):
                    shares[argument].append(share)
                continue
            total = sympy.Add(*shares[node])
            if total == 0:
                continue
            if node.op == "result":
                self.loops.add(node, self._bound(total))
                continue
            if not total.is_Atom and not (total.is_Mul and total == -total.args[-1]):
                total = self._bound(total)
                if node in names:
                    sums[total] = f"d_{names[node]}_sum"
            args = self._factors(node) if node.op == "*" else node.args
            extreme = any(_is_extreme(a) for a in node.args)
            known = len(self.definitions)
            pulled_back = self.pulled_back(node, args, total)
            self.bound.update(dict.fromkeys(list(self.definitions)[known:], node))
            for argument, share in zip(args, pulled_back, strict=True):
                if share is not None and extreme and argument in active:
                    share = self._bound(share)
                    self.kept.add(share)
                if share is not None and argument in active:
                    shares[argument].append(share)
                    self.shares.append((node, share))
        totals = {name: sympy.Add(*shares.get(symbol(name), [])) for name in self.wanted}
        return self._resolved(totals, sums)

    def active(self, nodes: list[Node]) -> set[Node]:
        """The nodes that depend on a wanted symbol and can have a gradient."""
        wanted = {symbol(name) for name in self.wanted}
        active: set[Node] = set()
        for node in nodes:
            if node in wanted or (not node.is_condition and any(a in active for a in node.args)):
                active.add(node)
        return active

    def _factors(self, node: Node) -> tuple[Node, ...]:
        """The factors of a product whose partial products have no other use.

        The gradient of a factor is then the product of the others, and these products share parts.
        """
        factors = [node]
        while len(factors) < _MOST_FACTORS:
            inner = next((i for i, f in enumerate(factors) if self._dissolves(f, node)), None)
            if inner is None:
                break
            factors[inner : inner + 1] = factors[inner].args
        return tuple(factors)

    def _dissolves(self, factor: Node, root: Node) -> bool:
        inside = self.uses[factor] == 1 and factor not in self.known
        extreme = any(_is_extreme(a) for a in factor.args)
        return factor.op == "*" and (factor is root or (inside and not extreme))

    def pulled_back(
        self, node: Node, operands: tuple[Node, ...], d: sympy.Expr
    ) -> tuple[sympy.Expr | None, ...]:
        """The cotangent of each operand of a node, given that of the node."""
        y, args = self._value(node), [self._value(a) for a in operands]
        match node.op:
            case "+":
                return d, d
            case "-":
                return d, -d
            case "neg":
                return (-d,)
            case "*":
                return tuple(sympy.Mul(d, *args[:i], *args[i + 1 :]) for i in range(len(args)))
            case "/" if node.args[0].is_number and node.args[0].value == 1:
                return None, -d * y**2
            case "/" if node in self.known:
                # The quotient is recomputed, because nothing else may read this new state.
                inverse = self._bound(1 / args[1])
                share = self._bound(d * inverse)
                return share, -share * self._bound(args[0] * inverse)
            case "/":
                share = self._bound(d / args[1])
                return share, -share * y
            case "**":
                assert isinstance(node.value, int)
                if node.value < 0:
                    return (d * node.value * y / args[0],)
                return (d * node.value * args[0] ** (node.value - 1),)
        return TABLE[node.name].pullback(d, y, *args)

    def _value(self, node: Node) -> sympy.Expr:
        """The symbol or number that stands for a node's value."""
        if node not in self.values:
            self.values[node] = self._stand_in(node)
        return self.values[node]

    def _stand_in(self, node: Node) -> sympy.Expr:
        if node.is_symbol and node not in self.known:
            return sympy.Symbol(node.name)
        if node.is_number and not _is_extreme(node):
            assert isinstance(node.value, int | float)
            whole = node.value == int(node.value)
            return sympy.Integer(node.value) if whole else sympy.Float(node.value)
        # No cell has a name like this, and sympy sorts it after the cell's names.
        stand_in = sympy.Symbol(f"~{node.value or ''}{len(self.behind):05}")
        self.behind[stand_in] = node
        return stand_in

    def _bound(self, value: sympy.Expr) -> sympy.Symbol:
        bound = sympy.Symbol(f"_d{len(self.definitions):05}")
        self.definitions[bound] = value
        return bound

    def _resolved(self, totals: dict[str, sympy.Expr], sums: dict[sympy.Symbol, str]) -> Adjoint:
        """The gradients as nodes, with every definition that they need."""
        results = {sympy.Symbol(f"_result_{name}"): total for name, total in totals.items()}
        kept = {*results, *sums, *self.kept, *self.loops.cotangents}
        bodies = inlined({**self.definitions, **results}, kept)
        if len(bodies) <= _LARGEST_SEARCH:
            fresh = sympy.numbered_symbols("_c")
            shared, values = sympy.cse(
                list(bodies.values()), symbols=fresh, order="canonical", list=True
            )
            bodies = {**dict(shared), **dict(zip(bodies, values, strict=True))}
        stand_ins = list(self.behind)
        nodes = rewritten(self.behind.values(), self.known)
        resolved = dict(zip(stand_ins, nodes, strict=True))
        for target in [*results, *sums]:
            stack = [target]
            while stack:
                now = stack[-1]
                read = self.loops.read_by(now) if now in self.loops else bodies[now].free_symbols
                missing = [
                    s
                    for s in sorted(read, key=str)
                    if (s in bodies or s in self.loops) and s not in resolved
                ]
                if missing:
                    stack.extend(missing)
                elif now in self.loops:
                    resolved[stack.pop()] = self.loops.node(now, self.known, resolved)
                else:
                    resolved[stack.pop()] = from_sympy(bodies[now], resolved)
        gradients = {name: resolved[sympy.Symbol(f"_result_{name}")] for name in totals}
        origins = {**self.loops.origins, **self._origins(gradients, resolved)}
        return Adjoint(gradients, {resolved[s]: name for s, name in sums.items()}, origins)

    def _origins(
        self, gradients: Mapping[str, Node], resolved: Mapping[sympy.Symbol, Node]
    ) -> dict[Node, tuple[Node, ...]]:
        """The terms that the gradients' nodes came from."""
        found = DerivativeOrigins()
        names = self._names_below()
        cotangents = [symbol(f"d_{name}") for name in self.results]
        for bound, term in self.bound.items():
            value = self.definitions[bound]
            if self._is_value(value):
                node = from_sympy(value, resolved)
                found.add_part(node, term)
                found.add_factor(node, term, names[term])
        for term, share in dict.fromkeys(self.shares):
            for part in sympy.preorder_traversal(share):
                pure = self._is_value(part)
                if pure and part.args:
                    found.add_part(from_sympy(part, resolved), term)
                elif not pure and part.func.__name__ in TABLE:
                    values = [a for a in part.args if self._is_value(a)]
                    nodes = tuple(from_sympy(a, resolved) for a in values)
                    found.add_call(part.func.__name__, nodes, term)
            if term.op in ("*", "/", "**"):
                operands = self._factors(term) if term.op == "*" else term.args
                for i, operand in enumerate(operands):
                    # It multiplies on the way to the other operands, or to itself.
                    others = operands[:i] + operands[i + 1 :] if term.op == "*" else operands
                    reached = frozenset[str]().union(*(names[o] for o in others))
                    found.add_factor(from_sympy(self._value(operand), resolved), term, reached)
        return found.find(gradients, self.recomputed(), cotangents)

    def recomputed(self) -> dict[Node, tuple[Node, ...]]:
        """The terms that are recomputed, as they are written in the gradients."""
        found = rewritten_origins(of_terms(self.results.values()), self.known)
        # The name of a new state does not show the operation that made it.
        for name in self.results:
            found.pop(symbol(name), None)
        return found

    def _names_below(self) -> dict[Node, frozenset[str]]:
        """For each node of the results, the wanted symbols that it depends on."""
        wanted, found = {symbol(name) for name in self.wanted}, dict[Node, frozenset[str]]()
        for node in ordered(self.results.values()):
            own = frozenset([node.name]) if node in wanted else frozenset[str]()
            found[node] = own.union(*(found[a] for a in node.args))
        return found

    def _is_value(self, part: sympy.Basic) -> bool:
        """Return True if it has no cotangent in it: its symbols are values of the forward."""
        given = {f"d_{name}" for name in self.results}
        return not any(
            s in self.definitions or s in self.loops or s.name in given for s in part.free_symbols
        )


def _is_extreme(node: Node) -> bool:
    """Return True if a node is a number whose product with another may overflow or underflow."""
    if not node.is_number:
        return False
    assert isinstance(node.value, int | float)
    return node.value != 0 and not _TINY <= abs(node.value) <= _HUGE
