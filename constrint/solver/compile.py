"""`Compiler`: the propagators of one constraint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..language.constraint import (
    Both,
    Comparison,
    Constraint,
    Either,
    Implication,
    Member,
    Truth,
    function,
    variables,
)
from ..language.expression import Binary, Constant, Expression, Negation
from ..language.variable import Variable
from ..propagators import polynomial as poly
from ..propagators.division import Divides, Power, Quotient, Remainder
from ..propagators.linear import Linear
from ..propagators.logic import All, Any, Decided, Exact, In, Literal
from ..propagators.polynomial import Polynomial
from ..propagators.propagator import Definition, Propagator, Revises

if TYPE_CHECKING:
    from .network import Network


class Compiler:
    """Adds the propagators of one constraint to a network."""

    def __init__(self, network: Network, owner: int, name: str) -> None:
        self.network = network
        self.owner = owner
        self.name = name
        self.scope: dict[int, None] = {}
        self.hidden = False

    def constraint(self, constraint: Constraint) -> None:
        """Add the propagators of the constraint."""
        visible = tuple(dict.fromkeys(v.index for v in variables(constraint)))
        parts = _conjuncts(constraint)
        final = False
        for part in parts:
            self.scope = {}
            acts = self.literal(part)
            whole = len(parts) == 1 and not self.hidden
            final = whole and isinstance(acts, Linear) and acts.monotone
            self._post(acts, self.scope, whole=whole)
        exact = Exact(visible, lambda: function(constraint), final=final)
        self._post(exact, visible, exact=True)

    def _post(
        self, acts: Revises, scope: Iterable[int], *, exact: bool = False, whole: bool = False
    ) -> None:
        self.network.propagators.append(
            Propagator.of(acts, scope, self.owner, self.name, exact=exact, whole=whole)
        )

    def _hide(self, node: Expression) -> int:
        self.hidden = True
        return self.network.hide(node.low, node.high)

    def literal(self, constraint: Constraint) -> Literal:
        """The constraint as a propagator with a status."""
        match constraint:
            case Truth(holds=holds):
                return Decided(holds)
            case Member(expression=inner, values=values, inside=inside):
                return In(self._seen(self._name(self.polynomial(inner), inner)), values, inside)
            case Comparison():
                return self._comparison(constraint)
            case Both(left=left, right=right):
                return All([self.literal(left), self.literal(right)])
            case Either(left=left, right=right):
                return Any([self.literal(left), self.literal(right)])
            case Implication(left=left, right=right):
                return Any([self.literal(~left), self.literal(right)])
        raise AssertionError(f"no such constraint: {constraint!r}")  # pragma: no cover

    def _comparison(self, comparison: Comparison) -> Literal:
        left, right, operator = comparison.left, comparison.right, comparison.operator
        if operator == "==" and left.low == left.high == 0:
            left, right = right, left
        if (
            operator == "=="
            and right.low == right.high == 0
            and isinstance(left, Binary)
            and left.operator == "%"
        ):
            return self._divides(left.left, left.right)
        match operator:
            case "<=" | "==" | "!=":
                total = poly.plus(self.polynomial(left), self.polynomial(right), -1)
            case ">=":
                operator, total = "<=", poly.plus(self.polynomial(right), self.polynomial(left), -1)
            case "<":
                operator, total = "<=", poly.plus(self.polynomial(left), self.polynomial(right), -1)
                total = poly.plus(total, poly.constant(1))
            case _:
                operator, total = "<=", poly.plus(self.polynomial(right), self.polynomial(left), -1)
                total = poly.plus(total, poly.constant(1))
        self._see(total)
        return Linear(operator, total, self.network.store)

    def _divides(self, whole: Expression, part: Expression) -> Literal:
        dividend, divisor = self.polynomial(whole), self.polynomial(part)
        if len(divisor) > 1:
            divisor = poly.variable(self._name(divisor, part))
        self._see(dividend)
        self._see(divisor)
        ((monomial, coefficient),) = divisor.items()
        return Divides(dividend, coefficient, monomial, self.network.store)

    def polynomial(self, node: Expression) -> Polynomial:
        """The expression as a polynomial over declared and hidden variables."""
        # No `match`: it takes several times as long, in what takes most of the time.
        if isinstance(node, Variable):
            return poly.variable(node.index)
        if isinstance(node, Constant):
            return poly.constant(node.value)
        if isinstance(node, Negation):
            return poly.times(poly.constant(-1), self.polynomial(node.operand))
        if isinstance(node, Binary):
            operator, right = node.operator, node.right
            if operator in ("+", "-"):
                sign = 1 if operator == "+" else -1
                return poly.plus(self.polynomial(node.left), self.polynomial(right), sign)
            if operator == "*":
                return poly.times(*self._flat(node.left, right))
            if operator == "**" and right.low == right.high:
                return self._power(node.left, right.low)
            return self._hidden(node)
        raise AssertionError(f"no such expression: {node!r}")  # pragma: no cover

    def _flat(self, left: Expression, right: Expression) -> tuple[Polynomial, Polynomial]:
        """The factors of a product, with a hidden variable for each sum of several terms.

        Multiplied out, x * (y + z) contains x twice, which weakens the bounds of x.
        """
        a, b = self.polynomial(left), self.polynomial(right)
        if poly.ONE not in b or len(b) > 1:
            a = self._single(a, left)
        if poly.ONE not in a or len(a) > 1:
            b = self._single(b, right)
        return a, b

    def _single(self, polynomial: Polynomial, node: Expression) -> Polynomial:
        if len(polynomial) <= 1:
            return polynomial
        return poly.variable(self._name(polynomial, node))

    def _power(self, base: Expression, exponent: int) -> Polynomial:
        single = self._single(self.polynomial(base), base)
        out = poly.constant(1)
        if not single or not exponent:
            return out if not exponent else {}
        ((monomial, coefficient),) = single.items()
        return {tuple((x, e * exponent) for x, e in monomial): coefficient**exponent}

    def _hidden(self, node: Binary) -> Polynomial:
        """A hidden variable for the result of //, % or a power with a variable exponent."""
        a = self._name(self.polynomial(node.left), node.left)
        b = self._name(self.polynomial(node.right), node.right)
        result = self._hide(node)
        kinds: dict[str, Callable[[int, int, int], Revises]]
        kinds = {"//": Quotient, "%": Remainder, "**": Power}
        make = kinds[node.operator]
        # The result is a function of its inputs, so this holds whether or not the constraint does.
        self._post(make(result, a, b), (result, a, b))
        return poly.variable(result)

    def _name(self, polynomial: Polynomial, node: Expression) -> int:
        """A variable that equals the polynomial, or the polynomial itself if it is a variable."""
        if len(polynomial) == 1:
            ((monomial, coefficient),) = polynomial.items()
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                return monomial[0][0]
        name = self._hide(node)
        self.network.definitions[name] = Definition(polynomial, self.owner, self.name)
        return name

    def _see(self, polynomial: Polynomial) -> None:
        self.scope.update(poly.scope(polynomial))

    def _seen(self, x: int) -> int:
        self.scope[x] = None
        return x


def _conjuncts(constraint: Constraint) -> list[Constraint]:
    if isinstance(constraint, Both):
        return _conjuncts(constraint.left) + _conjuncts(constraint.right)
    return [constraint]
