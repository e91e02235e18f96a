"""Conversion of sympy expressions to nodes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import sympy
from sympy.core.parameters import distribute
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom

from ..errors import CellError
from ..functions import TABLE
from . import node as nodes
from .node import Node
from .powers import raised


def factored() -> AbstractContextManager[None]:
    """A context in which sympy keeps `0.1 * (a + b)` as two operations.

    By default sympy multiplies a number into a sum.
    """
    manager: AbstractContextManager[None] = distribute(False)
    return manager


def from_sympy(value: sympy.Basic, known: Mapping[sympy.Symbol, Node] | None = None) -> Node:
    """The nodes of a small sympy expression; sums and products become pairs from left to right.

    Args:
        value: the expression, over functions of the table.
        known: nodes for some symbols; other symbols become names.

    Raises:
        CellError: the language lacks an operation of it.

    Example:
        >>> import sympy
        >>> from rnnc.cellspec.expression.symbolic import from_sympy
        >>> x, y = sympy.symbols("x y")
        >>> from_sympy(x / y - 2 * x), from_sympy(1 - x**2)
        (x/y - 2*x, 1 - x**2)
    """
    return _Converter(known or {}).node(value)


class _Converter:
    def __init__(self, known: Mapping[sympy.Symbol, Node]) -> None:
        self.known = known

    def node(self, value: sympy.Basic) -> Node:
        if isinstance(value, sympy.Symbol):
            return self.known.get(value) or nodes.symbol(value.name)
        if isinstance(value, BooleanAtom):
            return nodes.truth(bool(value))
        if isinstance(value, sympy.Number) and value.is_finite:
            return nodes.number(int(value) if value.is_Integer else float(value))
        if isinstance(value, sympy.Add):
            return self._sum(value)
        if isinstance(value, sympy.Mul | sympy.Pow):
            minus, above, below = self._factors(value)
            if minus and above and above[0].is_number:
                return _product([nodes.negative(above[0]), *above[1:]], below)
            product = _product(above, below)
            return nodes.negative(product) if minus else product
        if isinstance(value, Relational):
            return nodes.compare(value.rel_op, self.node(value.lhs), self.node(value.rhs))
        if isinstance(value, sympy.And | sympy.Or):
            # sympy keeps the parts in a set, so they are sorted.
            first, *rest = map(self.node, sorted(value.args, key=str))
            join = "&" if isinstance(value, sympy.And) else "|"
            for part in rest:
                first = nodes.binary(join, first, part)
            return first
        if isinstance(value, sympy.Not):
            return nodes.negated(self.node(value.args[0]))
        if value.func.__name__ in TABLE:
            return TABLE[value.func.__name__].node(*map(self.node, value.args))
        raise CellError(
            f"`{value}`, which is {value.func.__name__} in sympy",
            "+ - * / **, comparisons and the functions of rnnc's table",
            "an expression of those",
        )

    def _sum(self, value: sympy.Add) -> Node:
        """A sum with its positive terms first, which saves a sign."""
        terms = [self._signed(term) for term in value.args]
        plus = [term for minus, term in terms if not minus]
        minus = [term for minus, term in terms if minus]
        total = plus.pop(0) if plus else nodes.negative(minus.pop(0))
        for term in plus:
            total = nodes.binary("+", total, term)
        for term in minus:
            total = nodes.binary("-", total, term)
        return total

    def _signed(self, value: sympy.Basic) -> tuple[bool, Node]:
        """Return whether the term is negative, and the term without its sign."""
        if not isinstance(value, sympy.Mul | sympy.Pow):
            return _without_sign(self.node(value))
        minus, above, below = self._factors(value)
        return minus, _product(above, below)

    def _factors(self, value: sympy.Basic) -> tuple[bool, list[Node], list[Node]]:
        """Return whether the product is negative, its factors, and its divisors."""
        minus = False
        above: list[Node] = []
        below: list[Node] = []
        for factor in value.args if isinstance(value, sympy.Mul) else (value,):
            if factor == -1:
                minus = not minus
                continue
            under, part = self._factor(factor)
            sign, part = _without_sign(part)
            minus = minus != sign
            (below if under else above).append(part)
        return minus, above, below

    def _factor(self, factor: sympy.Basic) -> tuple[bool, Node]:
        """Return whether it is a divisor, and its node."""
        if isinstance(factor, sympy.Pow):
            base, exponent = factor.args
            if not exponent.is_Integer:
                return False, raised(self.node(base), self.node(exponent))
            return bool(exponent < 0), nodes.power(self.node(base), abs(int(exponent)))
        if factor.func.__name__ == "reciprocal":
            return True, self.node(factor.args[0])
        return False, self.node(factor)


def _product(above: list[Node], below: list[Node]) -> Node:
    product = above[0] if above else nodes.number(1)
    for part in above[1:]:
        product = nodes.binary("*", product, part)
    for part in below:
        product = nodes.binary("/", product, part)
    return product


def _without_sign(node: Node) -> tuple[bool, Node]:
    if node.op == "neg":
        return True, node.args[0]
    if isinstance(node.value, int | float) and node.is_number and node.value < 0:
        return True, nodes.negative(node)
    return False, node
