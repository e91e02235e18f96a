"""Polynomials over integer variables: their normal form and their propagation."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from . import integers
from .store import LISTED, Store, Wipeout

Monomial = tuple[tuple[int, int], ...]
Polynomial = dict[Monomial, int]

ONE: Monomial = ()


def constant(value: int) -> Polynomial:
    """The polynomial that is a number."""
    return {ONE: value} if value else {}


def variable(x: int) -> Polynomial:
    """The polynomial that is a variable."""
    return {((x, 1),): 1}


def plus(a: Mapping[Monomial, int], b: Mapping[Monomial, int], sign: int = 1) -> Polynomial:
    """The sum, or with sign -1 the difference, of two polynomials."""
    out = dict(a)
    for monomial, coefficient in b.items():
        out[monomial] = out.get(monomial, 0) + sign * coefficient
    return {monomial: coefficient for monomial, coefficient in out.items() if coefficient}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """The product of two polynomials."""
    out: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            powers = dict(m)
            for x, e in n:
                powers[x] = powers.get(x, 0) + e
            out = plus(out, {tuple(sorted(powers.items())): c * d})
    return out


class Term:
    """A coefficient times powers of variables."""

    __slots__ = ("coefficient", "factors", "natural", "plain")

    def __init__(self, coefficient: int, factors: Monomial, store: Store) -> None:
        self.coefficient = coefficient
        self.factors = factors
        # Domains only shrink, so what is never negative now never will be.
        self.natural = all(store.low[x] >= 0 for x, _ in factors)
        # The common case, a product of such variables without powers, is kept short.
        plain = self.natural and all(e == 1 for _, e in factors)
        self.plain = tuple(x for x, _ in factors) if plain else None

    def bounds(self, store: Store) -> integers.Interval:
        """The interval of the product of the factors, without the coefficient."""
        low, high = store.low, store.high
        out = (1, 1)
        for x, e in self.factors:
            out = integers.product(out, integers.power((low[x], high[x]), (e, e)))
        return out

    def split(self, store: Store) -> tuple[int, list[tuple[int, int]]]:
        """The product of what is fixed, coefficient included, and the factors that are not."""
        known = self.coefficient
        free = []
        for x, e in self.factors:
            value = store.low[x]
            if value == store.high[x]:
                known *= value if e == 1 else value**e
            else:
                free.append((x, e))
        return known, free

    def confine(self, store: Store, low: int, high: int) -> None:
        """Narrow the variables so that the product of the factors can lie in low..high."""
        factors = self.factors
        for place, (x, e) in enumerate(factors):
            if store.low[x] == store.high[x]:
                if len(factors) == 1 and not low <= store.low[x] ** e <= high:
                    raise Wipeout
                continue
            if self.natural:
                rest_low = rest_high = 1
                for other, (y, f) in enumerate(factors):
                    if other != place:
                        rest_low *= store.low[y] ** f
                        rest_high *= store.high[y] ** f
                if rest_low:
                    if high < 0:
                        raise Wipeout
                    store.at_most(x, integers.root_floor(high // rest_low, e))
                if low > 0:
                    if not rest_high:
                        raise Wipeout
                    store.at_least(x, integers.root_ceil(-(-low // rest_high), e))
                continue
            rest = (1, 1)
            for other, (y, f) in enumerate(factors):
                if other != place:
                    rest = integers.product(
                        rest, integers.power((store.low[y], store.high[y]), (f, f))
                    )
            target = integers.factor_of((low, high), rest)
            if target is None:
                continue
            if target[0] > target[1]:
                raise Wipeout
            bounds = integers.base_of(target, e)
            store.at_least(x, bounds[0])
            store.at_most(x, bounds[1])


class Linear:
    """A sum of terms compared with a number: the propagator of `==`, `<=` and `!=`.

    Bounds of each term follow from those of the others, bounds of each factor from those of its
    term. An equation also passes on divisors: with everything else known, a factor divides what is
    left; and whatever divides all the other terms divides this one.
    """

    __slots__ = ("large", "operator", "right", "terms")

    def __init__(self, operator: str, polynomial: Polynomial, store: Store) -> None:
        self.operator = operator
        self.right = -polynomial.get(ONE, 0)
        self.terms = [Term(c, m, store) for m, c in polynomial.items() if m != ONE]
        self.large = any(store.high[x] - store.low[x] >= LISTED for m in polynomial for x, _ in m)

    @property
    def monotone(self) -> bool:
        """Whether bounds tell all: an inequality that rises or falls in each variable alone."""
        factors = [x for term in self.terms for x, _ in term.factors]
        return (
            self.operator == "<="
            and all(term.natural for term in self.terms)
            and len(factors) == len(set(factors))
        )

    def _bounds(self, store: Store) -> tuple[list[integers.Interval], int, int]:
        each = []
        low = high = 0
        lows, highs = store.low, store.high
        for term in self.terms:
            if term.plain is not None:
                a = b = 1
                for x in term.plain:
                    a *= lows[x]
                    b *= highs[x]
            else:
                a, b = term.bounds(store)
            c = term.coefficient
            a, b = (c * a, c * b) if c > 0 else (c * b, c * a)
            each.append((a, b))
            low += a
            high += b
        return each, low, high

    def status(self, store: Store) -> bool | None:
        """Whether it holds for all, for none, or (None) perhaps for some of the values left."""
        _, low, high = self._bounds(store)
        if self.operator == "<=":
            return True if high <= self.right else False if low > self.right else None
        if low > self.right or high < self.right:
            return self.operator == "!="
        if low == high:
            return self.operator == "=="
        return None

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true once it holds for all values left."""
        each, low, high = self._bounds(store)
        right = self.right
        if self.operator == "!=":
            return self._differ(store, low, high)
        if low > right:
            raise Wipeout
        exact = self.operator == "=="
        if exact:
            if high < right:
                raise Wipeout
            if low == high:
                return True
        elif high <= right:
            return True
        for term, (a, b) in zip(self.terms, each, strict=True):
            # The others take at least low - a and at most high - b.
            most = right - low + a
            least = right - high + b if exact else a
            if most >= b and least <= a:
                continue
            c = term.coefficient
            if c < 0:
                least, most = -most, -least
                c = -c
                a, b = -b, -a
            term.confine(
                store, -(-least // c) if least > a else a // c, most // c if most < b else b // c
            )
        # What has changed wakes this propagator again, so divisors can wait for bounds to settle;
        # but bounds of a large product creep, and divisors put an end to that.
        if exact and (self.large or not store.changed):
            self._pass_divisors(store)
        return False

    def _differ(self, store: Store, low: int, high: int) -> bool:
        if low > self.right or high < self.right:
            return True
        if low == high:
            raise Wipeout
        left = self.right
        free = None
        for term in self.terms:
            known, unknown = term.split(store)
            if not unknown:
                left -= known
            elif free is None and len(unknown) == 1 and unknown[0][1] == 1:
                free = (known, unknown[0][0])
            else:
                return False
        if free is None or not free[0]:
            return False
        value, odd = divmod(left, free[0])
        if odd:
            return True
        store.exclude(free[1], value)
        return False

    def _pass_divisors(self, store: Store) -> None:
        left = self.right
        free = []
        for term in self.terms:
            known, unknown = term.split(store)
            if unknown and known:
                free.append((known, unknown))
            elif not unknown:
                left -= known
        if len(free) == 1:
            known, unknown = free[0]
            value, odd = divmod(left, known)
            if odd:
                raise Wipeout
            if value:
                for x, e in unknown:
                    _divides_power(store, x, e, value)
            return
        # G divides the sum of all the other terms, so this one is what is left, modulo G.
        for place, (known, unknown) in enumerate(free):
            if len(unknown) == 1 and unknown[0][1] == 1:
                others = gcd(*(other[0] for i, other in enumerate(free) if i != place))
                solve_congruence(store, unknown[0][0], known, left, others)
        if free and left % gcd(*(known for known, _ in free)):
            raise Wipeout


def _divides_power(store: Store, x: int, exponent: int, number: int) -> None:
    if exponent == 1:
        store.divides(x, number)
        return
    listed = store.listed(x)
    if listed is not None:
        store.keep(x, tuple(v for v in listed if v and number % v**exponent == 0))


def divide_factors(store: Store, factors: list[tuple[int, int]], number: int) -> None:
    """Keep those values of each factor that divide a number other than 0."""
    for x, e in factors:
        _divides_power(store, x, e, number)


def solve_congruence(store: Store, x: int, coefficient: int, right: int, modulus: int) -> None:
    """Keep the values of x with `coefficient * x` equal to `right` modulo `modulus`."""
    modulus = abs(modulus)
    if modulus < 2:
        return
    common = gcd(coefficient, modulus)
    if right % common:
        raise Wipeout
    modulus //= common
    if modulus > 1:
        inverse = pow(coefficient // common, -1, modulus)
        store.congruent(x, right // common * inverse % modulus, modulus)
