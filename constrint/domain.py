"""`Domain`: the values that a variable may take, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LARGEST_MAGNITUDE = 2**62


@dataclass(frozen=True)
class Domain:
    """A range, or a set of values in the order of their declaration.

    Attributes:
        low: the smallest value.
        high: the largest value.
        values: None for a range, else all values in ascending order.
        order: None if values are tried in ascending order, else all values in declared order.
    """

    low: int
    high: int
    values: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None

    @staticmethod
    def of(values: list[int]) -> Domain:
        """The domain of a list of values, tried in this order, without repetitions."""
        declared = tuple(dict.fromkeys(values))
        ascending = tuple(sorted(declared))
        if len(ascending) == ascending[-1] - ascending[0] + 1 and declared == ascending:
            return Domain(ascending[0], ascending[-1])
        return Domain(
            ascending[0], ascending[-1], ascending, None if declared == ascending else declared
        )

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high and (self.values is None or value in self.values)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order or self.values or range(self.low, self.high + 1))

    @property
    def size(self) -> int:
        """The number of values, which may exceed the largest result of `len`, 2^63 - 1."""
        return self.high - self.low + 1 if self.values is None else len(self.values)

    def __str__(self) -> str:
        if self.values is None:
            return f"{self.low}..{self.high}"
        return f"[{', '.join(map(str, self.order or self.values))}]"
