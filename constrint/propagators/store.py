"""`Store`: the domains during a search, with the reasons of changes and a trail to undo them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from ..domain import Domain
from ..integers import FACTORED_BITS, divisors

# A range below this size becomes a list if some of its values go. Filtering longer lists costs
# more time than it saves.
LISTED = 128

Values = tuple[int, ...]


class Wipeout(Exception):  # noqa: N818 - a signal between the store and the search, never seen outside
    """The signal that a domain is empty or a constraint cannot hold."""


class Store:
    """Bounds and values of all variables, also hidden ones, with a trail.

    The reason of a domain's size is a set of bits, one per constraint and one per decision that
    took part. It is coarse, since everything that a propagator read counts, and it costs one `or`
    per change. The search jumps back by these bits, and explanations start from them.
    """

    __slots__ = (
        "because",
        "bit",
        "changed",
        "high",
        "low",
        "narrate",
        "scope",
        "trail",
        "values",
        "why",
    )

    def __init__(self, domains: Sequence[Domain]) -> None:
        self.low = [d.low for d in domains]
        self.high = [d.high for d in domains]
        self.values: list[Values | None] = [d.values for d in domains]
        self.why = [0] * len(domains)
        self.trail: list[tuple[int, int, int, Values | None, int]] = []
        self.changed: list[int] = []
        self.scope: Sequence[int] = ()
        self.bit = 0
        self.because: int | None = None
        self.narrate: Callable[[int, str], None] | None = None

    def enter(self, scope: Sequence[int], bit: int) -> None:
        """Start changes by the constraint `bit`, which reads the variables in `scope`."""
        self.scope = scope
        self.bit = bit
        self.because = None

    def reason(self) -> int:
        """The bits of everything from which the current change follows."""
        if self.because is None:
            bits = self.bit
            why = self.why
            for x in self.scope:
                bits |= why[x]
            self.because = bits
        return self.because

    def size(self, x: int) -> int:
        """The number of values that the variable has left."""
        values = self.values[x]
        return self.high[x] - self.low[x] + 1 if values is None else len(values)

    def show(self, x: int) -> str:
        """The values that the variable has left, as text."""
        values = self.values[x]
        if self.low[x] == self.high[x]:
            return str(self.low[x])
        if values is None:
            return f"{self.low[x]}..{self.high[x]}"
        if len(values) <= 8:
            return ", ".join(map(str, values))
        return f"{values[0]}, {values[1]}, ..., {values[-1]} ({len(values)} values)"

    def _set(self, x: int, low: int, high: int, values: Values | None) -> None:
        before = self.show(x) if self.narrate else ""
        self.trail.append((x, self.low[x], self.high[x], self.values[x], self.why[x]))
        self.low[x] = low
        self.high[x] = high
        self.values[x] = values
        self.why[x] |= self.because or self.reason()
        self.changed.append(x)
        if self.narrate:
            self.narrate(x, f"{before} -> {self.show(x)}")

    def at_least(self, x: int, bound: int) -> None:
        """Remove the values below the bound."""
        if bound <= self.low[x]:
            return
        if bound > self.high[x]:
            raise Wipeout
        values = self.values[x]
        if values is None:
            self._set(x, bound, self.high[x], None)
        else:
            values = values[bisect_left(values, bound) :]
            self._set(x, values[0], values[-1], values)

    def at_most(self, x: int, bound: int) -> None:
        """Remove the values above the bound."""
        if bound >= self.high[x]:
            return
        if bound < self.low[x]:
            raise Wipeout
        values = self.values[x]
        if values is None:
            self._set(x, self.low[x], bound, None)
        else:
            values = values[: bisect_right(values, bound)]
            self._set(x, values[0], values[-1], values)

    def keep(self, x: int, values: Values) -> None:
        """Keep only these values, which are in ascending order and all in the domain."""
        if not values:
            raise Wipeout
        if len(values) < self.size(x):
            # Only a short list becomes a range, so that `exclude` works for any value.
            dense = values[-1] - values[0] == len(values) - 1 < LISTED
            self._set(x, values[0], values[-1], None if dense else values)

    def listed(self, x: int) -> Sequence[int] | None:
        """The values of a variable; None for a large range."""
        values = self.values[x]
        if values is None and self.high[x] - self.low[x] < LISTED:
            return range(self.low[x], self.high[x] + 1)
        return values

    def fix(self, x: int, value: int) -> None:
        """Keep only one value."""
        if self.low[x] == self.high[x] == value:
            return
        values = self.values[x]
        if not self.low[x] <= value <= self.high[x] or (values is not None and value not in values):
            raise Wipeout
        self._set(x, value, value, None)

    def exclude(self, x: int, value: int) -> None:
        """Remove one value; a value inside a large range stays for now."""
        if value == self.low[x]:
            if value == self.high[x]:
                raise Wipeout
            values = self.values[x]
            self.at_least(x, value + 1 if values is None else values[1])
        elif value == self.high[x]:
            values = self.values[x]
            self.at_most(x, value - 1 if values is None else values[-2])
        elif self.low[x] < value < self.high[x]:
            listed = self.listed(x)
            if listed is not None:
                self.keep(x, tuple([v for v in listed if v != value]))

    def divides(self, x: int, number: int) -> None:
        """Keep the divisors of a number other than 0, which are enumerated, unlike the range."""
        number = abs(number)
        self.at_most(x, number)
        self.at_least(x, -number)
        listed = self.listed(x)
        if listed is not None:
            self.keep(x, tuple([v for v in listed if v and number % v == 0]))
        elif number.bit_length() <= FACTORED_BITS:
            low, high = self.low[x], self.high[x]
            found = divisors(number)
            if low < 0:
                found = (*(-d for d in reversed(found)), *found)
            self.keep(x, found[bisect_left(found, low) : bisect_right(found, high)])

    def congruent(self, x: int, residue: int, modulus: int) -> bool:
        """Keep the values with this residue modulo a modulus > 1.

        Returns:
            Whether no other value is left; in a large range, only the bounds change.
        """
        values = self.values[x]
        if values is not None:
            self.keep(x, tuple([v for v in values if (v - residue) % modulus == 0]))
            return True
        low = self.low[x] + (residue - self.low[x]) % modulus
        high = self.high[x] - (self.high[x] - residue) % modulus
        if low > high:
            raise Wipeout
        if (high - low) // modulus < LISTED:
            self.keep(x, tuple(range(low, high + 1, modulus)))
            return True
        self.at_least(x, low)
        self.at_most(x, high)
        return False

    def undo(self, mark: int) -> None:
        """Undo every change since the trail had this length."""
        low, high, values, why, trail = self.low, self.high, self.values, self.why, self.trail
        while len(trail) > mark:
            x, low[x], high[x], values[x], why[x] = trail.pop()
