"""The domains during a search: how they shrink, why, and how they grow back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from ..domain import Domain
from ..integers import FACTORED_BITS, divisors

# Below this size a range is turned into its values where only some of them remain; to filter
# longer lists again and again takes more time than it saves.
LISTED = 128

Values = tuple[int, ...]


class Wipeout(Exception):  # noqa: N818 - a signal between the store and the search, never seen outside
    """A domain is empty, or a constraint cannot hold."""


class Store:
    """Bounds and values of all variables, the hidden ones included, with a trail.

    Why a domain is as small as it is, is kept as a set of bits: one bit for each constraint that
    took part and one for each decision. It is coarse (whatever a propagator looked at counts) and
    costs one `or` a change, and from it come both the jumps of the search and the constraints that
    an explanation starts from.
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
        """From here on, changes are made by the constraint `bit` looking at `scope`."""
        self.scope = scope
        self.bit = bit
        self.because = None

    def reason(self) -> int:
        """The bits of everything that the present change follows from."""
        if self.because is None:
            bits = self.bit
            why = self.why
            for x in self.scope:
                bits |= why[x]
            self.because = bits
        return self.because

    def size(self, x: int) -> int:
        """How many values the variable has left."""
        values = self.values[x]
        return self.high[x] - self.low[x] + 1 if values is None else len(values)

    def show(self, x: int) -> str:
        """The values that the variable has left, in words."""
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
        """Take away the values below the bound."""
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
        """Take away the values above the bound."""
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
        """Keep these values: some of the present ones, ascending."""
        if not values:
            raise Wipeout
        if len(values) < self.size(x):
            # Only what `listed` can list again becomes a range, so that any value can be excluded.
            dense = values[-1] - values[0] == len(values) - 1 < LISTED
            self._set(x, values[0], values[-1], None if dense else values)

    def listed(self, x: int) -> Sequence[int] | None:
        """The values of a variable with few of them; None for a large range."""
        values = self.values[x]
        if values is None and self.high[x] - self.low[x] < LISTED:
            return range(self.low[x], self.high[x] + 1)
        return values

    def fix(self, x: int, value: int) -> None:
        """Keep one value only."""
        if self.low[x] == self.high[x] == value:
            return
        values = self.values[x]
        if not self.low[x] <= value <= self.high[x] or (values is not None and value not in values):
            raise Wipeout
        self._set(x, value, value, None)

    def exclude(self, x: int, value: int) -> None:
        """Take away one value; inside of a large range nothing happens yet."""
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
        """Keep the divisors of a number other than 0: they are enumerated, the range is not."""
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
        """Keep the values that leave this residue on division by a modulus > 1.

        True if no other value is left; of a large range only the ends are moved.
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
        """Give back every change since the trail had this length."""
        low, high, values, why, trail = self.low, self.high, self.values, self.why, self.trail
        while len(trail) > mark:
            x, low[x], high[x], values[x], why[x] = trail.pop()
