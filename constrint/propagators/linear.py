"""`Linear`: the propagator of a sum of products compared with a number by `==`, `<=` or `!=`."""

from __future__ import annotations

from math import gcd

from .polynomial import ONE, Polynomial
from .store import LISTED, Store, Wipeout
from .term import Term, divide_factors, solve_congruence


class Linear:
    """A sum of terms compared with a number by `==`, `<=` or `!=`.

    The bounds of a term follow from the bounds of the other terms, and the bounds of a factor from
    the bounds of its term. An equation also gives divisors: if all else is known, a factor divides
    the remainder of the sum, and a number that divides all other terms divides this term's share.
    """

    __slots__ = ("large", "operator", "parts", "polynomial", "right", "terms")

    def __init__(self, operator: str, polynomial: Polynomial, store: Store) -> None:
        self.operator = operator
        self.polynomial = polynomial
        self.right = -polynomial.get(ONE, 0)
        self.terms = [Term(c, m, store) for m, c in polynomial.items() if m != ONE]
        # Read in each revision: one tuple is read faster than the attributes of a term.
        self.parts = [(t.alone, t.plain, t.coefficient, t) for t in self.terms]
        self.large = any(store.high[x] - store.low[x] >= LISTED for m in polynomial for x, _ in m)

    @property
    def monotone(self) -> bool:
        """True if bounds are exact: an inequality that is monotone in each variable."""
        factors = [x for term in self.terms for x, _ in term.factors]
        return (
            self.operator == "<="
            and all(term.natural for term in self.terms)
            and len(factors) == len(set(factors))
        )

    def _bounds(self, store: Store) -> tuple[list[tuple[Term, int, int]], int, int]:
        """The terms that are not fixed with their bounds, and the bounds of the whole sum."""
        unfixed = []
        low = high = 0
        lows, highs = store.low, store.high
        for x, plain, c, term in self.parts:
            if x is not None:
                a, b = lows[x], highs[x]
            elif plain is not None:
                a = b = 1
                for y in plain:
                    a *= lows[y]
                    b *= highs[y]
            else:
                a, b = term.bounds(store)
            if a == b:
                a *= c
                low += a
                high += a
                continue
            a, b = (c * a, c * b) if c > 0 else (c * b, c * a)
            unfixed.append((term, a, b))
            low += a
            high += b
        return unfixed, low, high

    def status(self, store: Store) -> bool | None:
        """Return True if it holds for all values left, False if for none, None if for some."""
        _, low, high = self._bounds(store)
        if self.operator == "<=":
            return True if high <= self.right else False if low > self.right else None
        if low > self.right or high < self.right:
            return self.operator == "!="
        if low == high:
            return self.operator == "=="
        return None

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        unfixed, low, high = self._bounds(store)
        right = self.right
        if self.operator == "!=":
            return self._differ(store, low, high)
        exact = self.operator == "=="
        # How far the sum may rise above its minimum, and fall below its maximum.
        rise, fall = right - low, high - right
        if rise < 0:
            raise Wipeout
        if exact:
            if fall < 0:
                raise Wipeout
            if not unfixed:
                return True
            if len(unfixed) == 1:
                term, a, _ = unfixed[0]
                return self._finish(store, term, a + rise)
        elif fall <= 0:
            return True
        for term, a, b in unfixed:
            width = b - a
            high_moves, low_moves = width > rise, exact and width > fall
            if not high_moves and not low_moves:
                continue
            most = a + rise if high_moves else b
            least = b - fall if low_moves else a
            c = term.coefficient
            if c < 0:
                least, most, c = -most, -least, -c
            least, most = -(-least // c), most // c
            x = term.alone
            if x is None:
                term.confine(store, least, most)
            else:
                store.at_least(x, least)
                store.at_most(x, most)
        # A change wakes this propagator again, so divisors can wait until bounds are settled. But
        # bounds of large products shrink in tiny steps, and divisors stop that.
        if exact and (self.large or not store.changed):
            self._pass_divisors(store)
        return False

    def _finish(self, store: Store, term: Term, left: int) -> bool:
        """Narrow the only term of an equation that is not fixed."""
        known, unknown = term.split(store)
        value, odd = divmod(left, known)
        if odd:
            raise Wipeout
        if len(unknown) == 1 and unknown[0][1] == 1:
            store.fix(unknown[0][0], value)
            return True
        product = left // term.coefficient
        term.confine(store, product, product)
        if value and (self.large or not store.changed):
            divide_factors(store, unknown, value)
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
        lows, highs = store.low, store.high
        numbers: list[int] = []
        units = 0
        # The only unknown of each term, or None if it has several.
        lone: list[int | None] = []
        for term in self.terms:
            x = term.alone
            if x is not None:
                known = term.coefficient
                if lows[x] == highs[x]:
                    left -= known * lows[x]
                    continue
            else:
                known, unknown = term.split(store)
                if not unknown:
                    left -= known
                    continue
                if not known:
                    continue
                x = unknown[0][0] if len(unknown) == 1 and unknown[0][1] == 1 else None
            numbers.append(known)
            lone.append(x)
            units += -1 <= known <= 1
            if units > 1:
                return  # nothing but 1 divides all numbers, or all but one
        # G divides the sum of the other terms, so this term equals the remainder modulo G.
        for place, x in enumerate(lone):
            if x is not None:
                others = gcd(*numbers[:place], *numbers[place + 1 :])
                if others != 1:
                    solve_congruence(store, x, numbers[place], left, others)
        if numbers and left % gcd(*numbers):
            raise Wipeout
