"""Propagators of membership, and, or, and of any constraint over few values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Protocol

from .store import LISTED, Store, Wipeout

# The most combinations of free variables that arc consistency tries.
TRIED = 32


class Literal(Protocol):
    """A propagator with a status, as the parts of an `or` need it."""

    def status(self, store: Store) -> bool | None:
        """Return True if it holds for all values left, False if for none, None if for some."""

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""


class Decided:
    """A constraint that always holds, or never."""

    __slots__ = ("holds",)

    def __init__(self, holds: bool) -> None:
        self.holds = holds

    def status(self, store: Store) -> bool | None:
        """Return True if it holds."""
        return self.holds

    def revise(self, store: Store) -> bool:
        """Return true, or raise `Wipeout`."""
        if not self.holds:
            raise Wipeout
        return True


class In:
    """The constraint that a variable is among some values, or is not."""

    __slots__ = ("inside", "ordered", "values", "x")

    def __init__(self, x: int, values: tuple[int, ...], inside: bool) -> None:
        self.x = x
        self.ordered = values
        self.values = frozenset(values)
        self.inside = inside

    def status(self, store: Store) -> bool | None:
        """Return True if it holds for all values left, False if for none, None if for some."""
        x = self.x
        if store.size(x) > LISTED:
            return None
        inside = sum(1 for v in self.ordered if v in self._left(store))
        if inside == store.size(x):
            return self.inside
        return None if inside else not self.inside

    def _left(self, store: Store) -> Sequence[int]:
        values = store.values[self.x]
        return range(store.low[self.x], store.high[self.x] + 1) if values is None else values

    def revise(self, store: Store) -> bool:
        """Narrow the domain; true if the constraint now holds for all values left."""
        x = self.x
        if self.inside:
            left = self._left(store)
            store.keep(x, tuple(v for v in self.ordered if v in left))
            return True
        listed = store.listed(x)
        if listed is None:
            for v in self.ordered:
                store.exclude(x, v)
            return False
        store.keep(x, tuple(v for v in listed if v not in self.values))
        return True


class All:
    """Literals that all hold."""

    __slots__ = ("literals",)

    def __init__(self, literals: Sequence[Literal]) -> None:
        self.literals = literals

    def status(self, store: Store) -> bool | None:
        """Return True if it holds for all values left, False if for none, None if for some."""
        out: bool | None = True
        for literal in self.literals:
            status = literal.status(store)
            if status is False:
                return False
            out = out and status
        return out

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        settled = True
        for literal in self.literals:
            settled = literal.revise(store) and settled
        return settled


class Any:
    """Literals of which at least one holds; if only one still can hold, it must."""

    __slots__ = ("literals",)

    def __init__(self, literals: Sequence[Literal]) -> None:
        self.literals = literals

    def status(self, store: Store) -> bool | None:
        """Return True if it holds for all values left, False if for none, None if for some."""
        out: bool | None = False
        for literal in self.literals:
            status = literal.status(store)
            if status:
                return True
            if status is None:
                out = None
        return out

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        last = None
        for literal in self.literals:
            status = literal.status(store)
            if status:
                return True
            if status is None:
                if last is not None:
                    return False
                last = literal
        if last is None:
            raise Wipeout
        return last.revise(store)


class Exact:
    """A whole constraint, tried value by value if few values are left.

    If one variable is free, its values are filtered, and the constraint then holds. If several are
    free and have few combinations, each value needs a combination that satisfies the constraint
    (generalised arc consistency). If none is free, this is the final check of a solution.

    Args:
        scope: the variables of the constraint.
        make: makes the function that tests the constraint; called when it is first needed.
        final: act only if no variable is free, because other propagators find all else.
    """

    __slots__ = ("_final", "_holds", "_make", "scope")

    def __init__(
        self,
        scope: Sequence[int],
        make: Callable[[], Callable[[Sequence[int]], int]],
        *,
        final: bool,
    ) -> None:
        self.scope = scope
        self._make = make
        self._final = final
        self._holds: Callable[[Sequence[int]], int] | None = None

    def revise(self, store: Store) -> bool:
        """Narrow the domains; true if the constraint now holds for all values left."""
        low, high = store.low, store.high
        if self._final:
            for x in self.scope:
                if low[x] != high[x]:
                    return False
        free = [x for x in self.scope if low[x] != high[x]]
        combinations = 1
        if len(free) > 1:
            for x in free:
                combinations *= store.size(x)
                if combinations > TRIED:
                    return False
        holds = self._holds
        if holds is None:
            holds = self._holds = self._make()
        if not free:
            if not holds(low):
                raise Wipeout
            return True
        lists: list[Sequence[int]] = []
        for x in free:
            listed = store.listed(x)
            if listed is None:
                return False
            lists.append(listed)
        # A copy, because trying a combination overwrites values.
        values = list(low)
        if len(free) == 1:
            x = free[0]
            kept = []
            for v in lists[0]:
                values[x] = v
                if holds(values):
                    kept.append(v)
            store.keep(x, tuple(kept))
            return True
        supported: list[set[int]] = [set() for _ in free]
        every = True
        for combination in product(*lists):
            for x, v in zip(free, combination, strict=True):
                values[x] = v
            if holds(values):
                for support, v in zip(supported, combination, strict=True):
                    support.add(v)
            else:
                every = False
        for x, support in zip(free, supported, strict=True):
            store.keep(x, tuple(sorted(support)))
        return every
