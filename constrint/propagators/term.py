"""`Term`: a product of variables, and how it narrows each factor."""

from __future__ import annotations

from math import gcd

from .. import integers
from .polynomial import Monomial
from .store import Store, Wipeout


class Term:
    """A product of a coefficient and powers of variables.

    Attributes:
        coefficient: the number.
        factors: variables and exponents.
        natural: whether no factor can be negative.
        plain: the variables, if all exponents are 1 and no variable can be negative; else None.
        alone: the variable, if it is the only factor and its exponent is 1; else None.
    """

    __slots__ = ("alone", "coefficient", "factors", "natural", "plain")

    def __init__(self, coefficient: int, factors: Monomial, store: Store) -> None:
        self.coefficient = coefficient
        self.factors = factors
        # Domains only shrink, so a variable that cannot be negative now stays so.
        low = store.low
        self.natural = once = True
        for x, e in factors:
            self.natural = self.natural and low[x] >= 0
            once = once and e == 1
        self.plain = tuple([x for x, _ in factors]) if self.natural and once else None
        self.alone = factors[0][0] if once and len(factors) == 1 else None

    def bounds(self, store: Store) -> integers.Interval:
        """The interval of the product of the factors, without the coefficient."""
        low, high = store.low, store.high
        out = (1, 1)
        for x, e in self.factors:
            out = integers.product(out, integers.power((low[x], high[x]), (e, e)))
        return out

    def split(self, store: Store) -> tuple[int, list[tuple[int, int]]]:
        """The product of the coefficient and the fixed factors, and the other factors."""
        low, high = store.low, store.high
        known = self.coefficient
        free = []
        for factor in self.factors:
            x, e = factor
            value = low[x]
            if value == high[x]:
                known *= value if e == 1 else value**e
            else:
                free.append(factor)
        return known, free

    def confine(self, store: Store, low: int, high: int) -> None:
        """Narrow the variables so that the product of the factors can lie in low..high."""
        if self.plain is not None:
            confine_product(store, self.plain, low, high)
            return
        factors = self.factors
        for place, (x, e) in enumerate(factors):
            rest = (1, 1)
            for other, (y, f) in enumerate(factors):
                if other != place:
                    power = integers.power((store.low[y], store.high[y]), (f, f))
                    rest = integers.product(rest, power)
            target = integers.factor_of((low, high), rest)
            if target is None:
                continue
            bounds = integers.base_of(target, e) if target[0] <= target[1] else target
            if bounds[0] > bounds[1]:
                raise Wipeout
            if self.natural and target[0] > 0:
                bounds = integers.root_ceil(target[0], e), bounds[1]
            store.at_least(x, bounds[0])
            store.at_most(x, bounds[1])


def confine_product(store: Store, factors: tuple[int, ...], low: int, high: int) -> None:
    """Narrow variables that are never negative so that their product can lie in low..high."""
    if high < 0:
        raise Wipeout
    lows, highs = store.low, store.high
    for x in factors:
        least, most = lows[x], highs[x]
        if least == most:
            continue
        rest_low = rest_high = 1
        for y in factors:
            if y != x:
                rest_low *= lows[y]
                rest_high *= highs[y]
        if most * rest_low > high:
            store.at_most(x, high // rest_low)
        if least * rest_high < low:
            if not rest_high:
                raise Wipeout
            store.at_least(x, -(-low // rest_high))


def _divides_power(store: Store, x: int, exponent: int, number: int) -> None:
    if exponent == 1:
        store.divides(x, number)
        return
    listed = store.listed(x)
    if listed is not None:
        store.keep(x, tuple(v for v in listed if v and number % v**exponent == 0))


def divide_factors(store: Store, factors: list[tuple[int, int]], number: int) -> None:
    """Keep the values of each factor that divide a number other than 0."""
    for x, e in factors:
        _divides_power(store, x, e, number)


def solve_congruence(store: Store, x: int, coefficient: int, right: int, modulus: int) -> bool:
    """Keep the values of x with `coefficient * x` equal to `right` modulo `modulus`.

    Returns:
        Whether no other value is left; in a large range, only the bounds change.
    """
    modulus = abs(modulus)
    if modulus < 2:
        return True
    common = gcd(coefficient, modulus)
    if right % common:
        raise Wipeout
    modulus //= common
    if modulus == 1:
        return True
    inverse = pow(coefficient // common, -1, modulus)
    return store.congruent(x, right // common * inverse % modulus, modulus)
