"""Forms that a scan over time can combine: sums of states times coefficients, and maxima."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..expression.node import Node, binary, call, negative, number


class NoFormError(Exception):
    """A value that depends on the states and has no form, with the reason."""


@dataclass(frozen=True)
class Affine:
    """A value as the sum of states, each times a coefficient, and an offset.

    Attributes:
        coefficients: by state; one that is left out is 0.
        offset: the rest, which no state of the part enters; None is 0.
    """

    coefficients: Mapping[str, Node]
    offset: Node | None = None

    def scaled(self, op: str, other: Node) -> Affine:
        """Return the value times another, or divided by it."""
        terms = {s: _product(op, c, other) for s, c in self.coefficients.items()}
        return Affine(terms, None if self.offset is None else _product(op, self.offset, other))

    def negated(self) -> Affine:
        """Return the value with the opposite sign."""
        terms = {state: negative(c) for state, c in self.coefficients.items()}
        return Affine(terms, None if self.offset is None else negative(self.offset))

    def plus(self, other: Affine, op: str = "+") -> Affine:
        """Return the value with another added, or subtracted from it."""
        terms = dict(self.coefficients)
        for state, coefficient in other.coefficients.items():
            terms[state] = _sum(op, terms.get(state), coefficient)
        rest = self.offset if other.offset is None else _sum(op, self.offset, other.offset)
        return Affine(terms, rest)

    def chosen(self, condition: Node, other: Affine) -> Affine:
        """Return this value where a condition holds, else another."""
        states = dict.fromkeys((*self.coefficients, *other.coefficients))
        pairs = {s: (self.coefficients.get(s), other.coefficients.get(s)) for s in states}
        terms = {s: _choice(condition, *pair) for s, pair in pairs.items()}
        none = self.offset is None and other.offset is None
        rest = None if none else _choice(condition, self.offset, other.offset)
        return Affine(terms, rest)


@dataclass(frozen=True)
class MaxAffine:
    """A value as `maximum(state + shift, bound)`.

    Attributes:
        shift: what is added to the state; None if the state does not enter.
        bound: the rest, which the state does not enter; None if there is no bound.
    """

    shift: Node | None
    bound: Node | None

    def plus(self, other: Node, op: str = "+") -> MaxAffine:
        """Return the value with another added, or subtracted from it."""
        parts = (None if x is None else _sum(op, x, other) for x in (self.shift, self.bound))
        return MaxAffine(*parts)

    def larger(self, other: MaxAffine) -> MaxAffine:
        """Return the larger of two values."""
        return MaxAffine(_larger(self.shift, other.shift), _larger(self.bound, other.bound))


_ZERO, _ONE = number(0), number(1)


def _product(op: str, value: Node, other: Node) -> Node:
    return other if op == "*" and value is _ONE else binary(op, value, other)


def _sum(op: str, first: Node | None, second: Node) -> Node:
    if first is None or first is _ZERO:
        return second if op == "+" else negative(second)
    return binary(op, first, second)


def _choice(condition: Node, first: Node | None, second: Node | None) -> Node:
    return call("where", condition, first or _ZERO, second or _ZERO)


def _larger(first: Node | None, second: Node | None) -> Node | None:
    if first is None or second is None:
        return first or second
    return call("maximum", first, second)
