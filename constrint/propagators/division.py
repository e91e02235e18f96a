"""Propagators of divisibility, //, % and ** with a variable exponent."""

from __future__ import annotations

from .. import integers
from .polynomial import ONE, Monomial, Polynomial
from .store import Store, Wipeout
from .term import Term, divide_factors, solve_congruence


class Divides:
    """`whole % part == 0` for a polynomial and a product that is never 0.

    If the whole is known, each factor of the part is one of its divisors. If the part is known, the
    last unknown of the whole satisfies a congruence.
    """

    __slots__ = ("known", "part", "whole")

    def __init__(self, whole: Polynomial, coefficient: int, part: Monomial, store: Store) -> None:
        self.whole = [Term(c, m, store) for m, c in whole.items() if m != ONE]
        self.known = whole.get(ONE, 0)
        self.part = Term(coefficient, part, store)

    def _split(self, store: Store) -> tuple[int, list[tuple[int, list[tuple[int, int]]]]]:
        known = self.known
        free = []
        for term in self.whole:
            fixed, unknown = term.split(store)
            if not unknown:
                known += fixed
            elif fixed:
                free.append((fixed, unknown))
        return known, free

    def status(self, store: Store) -> bool | None:
        """Return True if it holds for all values left, False if for none, None if for some."""
        known, free = self._split(store)
        part, unknown = self.part.split(store)
        if all(fixed % part == 0 for fixed, _ in free) and not unknown:
            return known % part == 0
        if not free and known and known % part:
            return False
        return None

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        known, free = self._split(store)
        part, unknown = self.part.split(store)
        if not free:
            if known == 0:
                return True
            # The fixed factors divide the whole; the other factors must divide the quotient.
            left, odd = divmod(known, part)
            if odd:
                raise Wipeout
            divide_factors(store, unknown, left)
            self._bound(store, abs(known))
            return not unknown
        if len(free) == 1 and len(free[0][1]) == 1 and free[0][1][0][1] == 1:
            solved = solve_congruence(store, free[0][1][0][0], free[0][0], -known, part)
            return solved and not unknown
        if len(free) == 1 and not known and all(store.low[x] > 0 for x, _ in free[0][1]):
            # A positive whole is not smaller than its divisor.
            self._bound(store, abs(free[0][0]) * _highest(store, free[0][1]))
        return False

    def _bound(self, store: Store, most: int) -> None:
        if self.part.natural:
            self.part.confine(store, 1, most // abs(self.part.coefficient))


def _highest(store: Store, factors: list[tuple[int, int]]) -> int:
    out = 1
    for x, e in factors:
        out *= store.high[x] ** e
    return out


class _OfTwo:
    """A result of two variables `a` and `b`."""

    __slots__ = ("a", "b", "result")

    def __init__(self, result: int, a: int, b: int) -> None:
        self.result, self.a, self.b = result, a, b


class Quotient(_OfTwo):
    """`result = a // b` between variables, b never 0."""

    __slots__ = ()

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        low, high = store.low, store.high
        q, a, b = self.result, self.a, self.b
        bounds = integers.quotient((low[a], high[a]), (low[b], high[b]))
        store.at_least(q, bounds[0])
        store.at_most(q, bounds[1])
        if low[b] > 0:
            # q b <= a <= q b + b - 1
            least, _ = integers.product((low[q], low[q]), (low[b], high[b]))
            _, most = integers.product((high[q] + 1, high[q] + 1), (low[b], high[b]))
            store.at_least(a, least)
            store.at_most(a, most - 1)
            if low[q] > 0:
                store.at_most(b, high[a] // low[q])
            if high[q] >= 0 and low[a] > 0:
                store.at_least(b, low[a] // (high[q] + 1) + 1)
        return low[q] == high[q] and low[a] == high[a] and low[b] == high[b]


class Remainder(_OfTwo):
    """`result = a % b` between variables, b never 0."""

    __slots__ = ()

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        low, high = store.low, store.high
        r, a, b = self.result, self.a, self.b
        bounds = integers.remainder((low[a], high[a]), (low[b], high[b]))
        store.at_least(r, bounds[0])
        store.at_most(r, bounds[1])
        if low[b] == high[b]:
            if low[a] // low[b] == high[a] // low[b]:
                # a stays between two multiples of b, so a and the remainder move together.
                base = low[a] // low[b] * low[b]
                store.at_least(r, low[a] - base)
                store.at_most(r, high[a] - base)
                store.at_least(a, low[r] + base)
                store.at_most(a, high[r] + base)
            if low[r] == high[r] and abs(low[b]) > 1:
                store.congruent(a, low[r], abs(low[b]))
        elif low[b] > 0:
            store.at_least(b, low[r] + 1)
            if low[a] == high[a] and low[r] == high[r] and low[a] != low[r]:
                store.divides(b, low[a] - low[r])
        return low[r] == high[r] and low[a] == high[a] and low[b] == high[b]


class Power(_OfTwo):
    """`result = a ** b` between variables, b never negative."""

    __slots__ = ()

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        low, high = store.low, store.high
        p, a, b = self.result, self.a, self.b
        bounds = integers.power((low[a], high[a]), (low[b], high[b]))
        store.at_least(p, bounds[0])
        store.at_most(p, bounds[1])
        if low[b] == high[b] > 0:
            bounds = integers.base_of((low[p], high[p]), low[b])
            if bounds[0] > bounds[1]:
                raise Wipeout
            store.at_least(a, bounds[0])
            store.at_most(a, bounds[1])
        elif low[a] > 1:
            # At most log(high p) to the smallest base, at least log(low p) to the largest.
            most, least = high[b], low[b]
            while most >= least and low[a] ** most > high[p]:
                most -= 1
            while least <= most and high[a] ** least < low[p]:
                least += 1
            store.at_most(b, most)
            store.at_least(b, least)
        return low[p] == high[p] and low[a] == high[a] and low[b] == high[b]
