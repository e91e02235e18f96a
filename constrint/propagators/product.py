"""`Product`: the propagator of a product that equals a variable."""

from __future__ import annotations

from .store import Store, Wipeout
from .term import confine_product, divide_factors


class Product:
    """`result = a * b * ...` for different variables that are never negative."""

    __slots__ = ("factors", "result")

    def __init__(self, result: int, factors: tuple[int, ...]) -> None:
        self.result = result
        self.factors = factors

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        lows, highs = store.low, store.high
        result = self.result
        low = high = known = 1
        free = []
        for x in self.factors:
            a, b = lows[x], highs[x]
            low *= a
            high *= b
            if a == b:
                known *= a
            else:
                free.append(x)
        if not free or not known:
            store.fix(result, known if not free else 0)
            return True
        store.at_least(result, low)
        store.at_most(result, high)
        low, high = lows[result], highs[result]
        if len(free) == 1:
            x = free[0]
            store.at_least(x, -(-low // known))
            store.at_most(x, high // known)
            if known > 1:
                store.congruent(result, 0, known)
            return lows[x] == highs[x] and lows[result] == highs[result]
        confine_product(store, self.factors, low, high)
        if low == high > 0 and not store.changed:
            left, odd = divmod(low, known)
            if odd:
                raise Wipeout
            divide_factors(store, [(x, 1) for x in free], left)
        return False
