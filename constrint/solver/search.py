"""`Search`: decisions, each followed by propagation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .budget import Budget
from .network import Network
from .propagation import Propagation, Trace

# After this many refuted values in a row, a decision halves a large domain.
PATIENCE = 1
_HALVED = 16


@dataclass(frozen=True)
class Order:
    """A variable and the order of its values.

    Attributes:
        variable: its index.
        largest: whether large values come first.
        declared: the values in declared order, if that is neither ascending nor descending.
    """

    variable: int
    largest: bool = False
    declared: tuple[int, ...] | None = None


class Search:
    """A depth-first search over a network with conflict-directed backjumping.

    A failure knows the decisions from which it follows. The search returns to the latest of them
    and undoes the decisions after it (Prosser, "Hybrid algorithms for the constraint satisfaction
    problem", 1993). It skips no solution and keeps the requested order.

    Args:
        network: what to search.
        order: variables in the order of branching. None takes the variable with the smallest
            ratio of domain size to failures (Boussemart et al., "Boosting systematic search by
            weighting constraints", 2004), which finds any solution, not the first.
        budget: the limits.
        trace: called with a line per event.

    Attributes:
        core: the bits of the constraints that rule out all values, after the search has ended.
        early: whether to stop at a node where no constraint connects the undecided variables.
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
        """Return True if no active propagator reads an undecided variable."""
        low, high = self.store.low, self.store.high
        return not any(
            low[o.variable] != high[o.variable] and self.propagation.active(o.variable)
            for o in self.order or ()
        )

    def settle(self) -> bool:
        """Propagate before any decision; false if there is no solution."""
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
        """The interval to which the next decision confines the variable."""
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

        After the last one, `core` has the bits of the constraints that rule out all other values.

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
                # The solution depends on all decisions, so each of them may change.
                conflict = (1 << len(levels)) - 1 << self.decided_bit
                again = True
            else:
                if levels:
                    self._refuted[levels[-1][1]] += 1
                self.propagation.clear()
            x = self._return(levels, conflict)
            if x is None:
                return
            # The value after a solution is often a solution too, so it is tried at once. The
            # exclusion of this value is propagated with it.
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
        """Undo decisions until one can be negated, and return its variable."""
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
            # Never empty, because a decision takes only a part of the domain.
            if low == high:
                store.exclude(x, low)
            elif low == store.low[x]:
                store.at_least(x, high + 1)
            else:
                store.at_most(x, low - 1)
            return x
        self.core = conflict & ((1 << self.decided_bit) - 1)
        return None
