"""Propagation to a fixed point and the search around it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .errors import LimitReached
from .network import Network
from .propagator import EXACT
from .store import Wipeout

# After this many refuted values in a row a large domain is halved instead.
PATIENCE = 1
_HALVED = 16

# Propagation that creeps (x < y and y < x over huge ranges) is cut off after this many steps a
# propagator; the search goes on with weaker bounds.
_STEPS_EACH = 200

Trace = Callable[[str], None]


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


class Budget:
    """What a caller allows: a deadline and a number of nodes, over all the searches of one call.

    Args:
        seconds: time allowed; None for any.
        nodes: decisions allowed; None for any.
    """

    def __init__(self, seconds: float | None = None, nodes: int | None = None) -> None:
        self.start = time.perf_counter()
        self.deadline = None if seconds is None else self.start + seconds
        self.allowed = nodes
        self.nodes = 0

    def check_time(self) -> None:
        """Raise `LimitReached` if the time is up."""
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise self.spent()

    def decide(self) -> None:
        """Count a decision; raise `LimitReached` if it is one too many."""
        if self.allowed is not None and self.nodes >= self.allowed:
            raise self.spent()
        self.nodes += 1
        self.check_time()

    def spent(self) -> LimitReached:
        """The error that says that the budget is spent."""
        return LimitReached(self.nodes, time.perf_counter() - self.start)


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
        propagators = network.propagators
        self._done = [False] * len(propagators)
        self._finished: list[tuple[int, int]] = []
        # Waiting in a queue, or done.
        self._busy = [True] * len(propagators)
        self._queues: tuple[deque[int], deque[int], deque[int]] = (deque(), deque(), deque())
        self._queue = [self._queues[p.rank] for p in propagators]
        for i, queue in enumerate(self._queue):
            queue.append(i)
        # One for each constraint, and the last for what holds by definition.
        self._weights = [1] * (len(network.named) + 1)
        self._refuted = [0] * len(network.declared)
        self._speaker = ""
        if trace:
            self.store.narrate = self._narrate

    def _narrate(self, x: int, change: str) -> None:
        assert self.trace
        if x < len(self.network.declared):
            self.trace(f"{self.network.declared[x]}: {change}   by {self._speaker}")

    def _propagate(self) -> int | None:
        """Run to the fixed point; None, or the bits of what a failure follows from."""
        store, propagators, watchers = self.store, self.network.propagators, self.network.watchers
        queue, busy, done = self._queue, self._busy, self._done
        first, second, third = self._queues
        changed, trail, finished = store.changed, store.trail, self._finished
        steps, last = 0, -1
        most = _STEPS_EACH * (len(propagators) + 1)
        try:
            while True:
                while changed:
                    for i in watchers[changed.pop()]:
                        if not busy[i]:
                            busy[i] = True
                            queue[i].append(i)
                if last >= 0:
                    busy[last] = done[last]
                    last = -1
                if first:
                    i = first.popleft()
                elif second:
                    i = second.popleft()
                elif third:
                    i = third.popleft()
                else:
                    return None
                if done[i]:
                    continue
                steps += 1
                if not steps & 255:
                    self.budget.check_time()
                propagator = propagators[i]
                # What finds everything at once is not woken by its own changes.
                if propagator.settles:
                    last = i
                else:
                    busy[i] = False
                if steps > most and propagator.rank < EXACT:
                    continue
                store.scope, store.bit, store.because = propagator.scope, propagator.bit, None
                if self.trace:
                    self._speaker = propagator.name
                if propagator.acts.revise(store):
                    done[i] = busy[i] = True
                    finished.append((len(trail), i))
                    if propagator.whole and not done[i + 1]:
                        # The exact propagator of the same constraint comes right after.
                        done[i + 1] = busy[i + 1] = True
                        finished.append((len(trail), i + 1))
        except Wipeout:
            propagator = propagators[i]
            self._weights[propagator.owner] += 1
            if self.trace:
                self.trace(f"fails: {propagator.name}")
            return store.reason()

    def _clear(self) -> None:
        for queue in self._queues:
            queue.clear()
        # The one at work when it failed is marked too, so all marks are taken away.
        self._busy[:] = self._done
        self.store.changed.clear()

    def active(self, x: int) -> list[int]:
        """The propagators that may still narrow a variable."""
        return [i for i in self.network.watchers[x] if not self._done[i]]

    def _idle(self) -> bool:
        """Whether the variables to be decided are free of each other and of everything."""
        low, high = self.store.low, self.store.high
        return not any(
            low[o.variable] != high[o.variable] and self.active(o.variable)
            for o in self.order or ()
        )

    def settle(self) -> bool:
        """Propagate before any decision; false if nothing is left."""
        conflict = self._propagate()
        if conflict is None:
            return True
        self._clear()
        self.core = conflict
        return False

    def undo(self, mark: int) -> None:
        """Give back every change since the trail had this length."""
        self.store.undo(mark)
        finished = self._finished
        while finished and finished[-1][0] > mark:
            i = finished.pop()[1]
            self._done[i] = self._busy[i] = False

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
                weight = sum(
                    self._weights[self.network.propagators[i].owner] for i in self.active(x)
                )
                score = min(self.store.size(x), 1 << 62) / (weight + 0.5)
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
            conflict = None if again else self._propagate()
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
                self._clear()
            x = self._return(levels, conflict)
            if x is None:
                return
            # Where one value fits the next one often does, so it is tried at once.
            again = again and store.low[x] != store.high[x]

    def _decide(self, order: Order, levels: list[tuple[int, int, int, int]]) -> None:
        store, x = self.store, order.variable
        self.budget.decide()
        low, high = self._choose(order)
        if levels and levels[-1][1] != x:
            self._refuted[levels[-1][1]] = 0
        levels.append((len(store.trail), x, low, high))
        bit = 1 << self.decided_bit + len(levels) - 1
        self._speaker = f"decision {len(levels)}"
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
            self.undo(mark)
            store.changed.clear()
            bit = 1 << self.decided_bit + len(levels)
            if not conflict & bit:
                continue
            conflict &= ~bit
            store.enter((x,), conflict)
            self._speaker = f"what refuted decision {len(levels) + 1}"
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
