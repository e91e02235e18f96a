"""The search: decisions, each followed by propagation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .budget import Budget
from .network import Network
from .propagation import Propagation, Trace

# After this many refuted values in a row a large domain is halved instead.
PATIENCE = 1
_HALVED = 16


@dataclass(frozen=True)
class Order:
    """A variable and the way its values are tried.

    Attributes:
        variable: its index.
        largest: whether large values come first.
        declared: the values in the order of their declaration, where that is neither way.
    """

    variable: int
    largest: bool = False
    declared: tuple[int, ...] | None = None


class Search:
    """One search over a network: depth first, in the order asked, with jumps over what is innocent.

    A failure knows the decisions that it follows from; the search returns to the latest of them
    and takes the others back (conflict-directed backjumping: Prosser, "Hybrid algorithms for the
    constraint satisfaction problem", 1993). No solution is skipped, and the order stays the one
    asked for.

    Args:
        network: what to search.
        order: variables in the order of branching; without one, the variable with the smallest
            domain for its failures so far is next (Boussemart et al., "Boosting systematic search
            by weighting constraints", 2004), which finds some solution, not the first.
        budget: the limits.
        trace: called with each line of what happens.

    Attributes:
        core: bits of the constraints that rule everything out, once nothing is left.
        early: stop at a node where the rest of the order is free; those variables stay open.
    """

    def __init__(
        self,
        network: Network,
        order: Sequence[Order] | None,
        budget: Budget,
        trace: Trace | None = None,
    ) -> None:
        self.network = network
        self.store = network.store
        self.order = order
        self.budget = budget
        self.trace = trace
        self.decided_bit = len(network.named)
        self.core = 0
        self.early = False
        self.propagation = Propagation(network, budget, trace)
        self._refuted = [0] * len(network.declared)

    def _idle(self) -> bool:
        """Whether the variables to be decided are free of each other and of everything."""
        low, high = self.store.low, self.store.high
        return not any(
            low[o.variable] != high[o.variable] and self.propagation.active(o.variable)
            for o in self.order or ()
        )

    def settle(self) -> bool:
        """Propagate before any decision; false if nothing is left."""
        conflict = self.propagation.run()
        if conflict is None:
            return True
        self.propagation.clear()
        self.core = conflict
        return False

    def _next(self) -> Order | None:
        low, high = self.store.low, self.store.high
        if self.order is not None:
            for order in self.order:
                if low[order.variable] != high[order.variable]:
                    return order
            return None
        best, best_score = None, 0.0
        for x in range(len(self.network.declared)):
            if low[x] != high[x]:
                score = min(self.store.size(x), 1 << 62) / (self.propagation.weight(x) + 0.5)
                if best is None or score < best_score:
                    best, best_score = x, score
        return None if best is None else Order(best)

    def _choose(self, order: Order) -> tuple[int, int]:
        """The interval to which the next decision confines the variable; its end comes first."""
        x = order.variable
        low, high = self.store.low[x], self.store.high[x]
        if order.declared is not None:
            left = self.store.values[x] or range(low, high + 1)
            value = next(v for v in order.declared if v in left)
            return value, value
        if self._refuted[x] >= PATIENCE and high - low >= _HALVED:
            middle = (low + high) // 2
            return (middle + 1, high) if order.largest else (low, middle)
        return (high, high) if order.largest else (low, low)

    def run(self) -> Iterator[list[int]]:
        """All solutions, each a list of the values of the declared variables.

        After the last one, `core` has the bits of constraints that together rule out all else.

        Raises:
            LimitReached: the budget is spent.
        """
        store = self.store
        declared = len(self.network.declared)
        levels: list[tuple[int, int, int, int]] = []
        again = False
        while True:
            conflict = None if again else self.propagation.run()
            again = False
            if conflict is None:
                order = self._next()
                if order is not None and not (self.early and self._idle()):
                    self._decide(order, levels)
                    continue
                if self.trace:
                    self.trace("solution")
                yield store.low[:declared]
                # All decisions led here, so each of them is open to another value.
                conflict = (1 << len(levels)) - 1 << self.decided_bit
                again = True
            else:
                if levels:
                    self._refuted[levels[-1][1]] += 1
                self.propagation.clear()
            x = self._return(levels, conflict)
            if x is None:
                return
            # Where one value fits the next one often does, so it is tried at once; that this one is
            # excluded is propagated with it.
            again = again and store.low[x] != store.high[x]

    def _decide(self, order: Order, levels: list[tuple[int, int, int, int]]) -> None:
        store, x = self.store, order.variable
        self.budget.decide()
        low, high = self._choose(order)
        if levels and levels[-1][1] != x:
            self._refuted[levels[-1][1]] = 0
        levels.append((len(store.trail), x, low, high))
        bit = 1 << self.decided_bit + len(levels) - 1
        self.propagation.speaker = f"decision {len(levels)}"
        store.enter((), bit)
        if low == high:
            store.fix(x, low)
        else:
            store.at_least(x, low)
            store.at_most(x, high)

    def _return(self, levels: list[tuple[int, int, int, int]], conflict: int) -> int | None:
        """Take decisions back until one can be turned round, and tell its variable."""
        store = self.store
        while levels:
            mark, x, low, high = levels.pop()
            self.propagation.undo(mark)
            store.changed.clear()
            bit = 1 << self.decided_bit + len(levels)
            if not conflict & bit:
                continue
            conflict &= ~bit
            store.enter((x,), conflict)
            self.propagation.speaker = f"what refuted decision {len(levels) + 1}"
            # Never empty: a decision takes a part of what is there, so the rest remains.
            if low == high:
                store.exclude(x, low)
            elif low == store.low[x]:
                store.at_least(x, high + 1)
            else:
                store.at_most(x, low - 1)
            return x
        self.core = conflict & ((1 << self.decided_bit) - 1)
        return None
