"""`Propagation`: runs propagators to a fixed point."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..propagators.propagator import EXACT
from ..propagators.store import Wipeout
from .budget import Budget
from .network import Network

# Propagation stops after this many steps per propagator, because it may shrink huge ranges in tiny
# steps (x < y and y < x). The search then continues with weaker bounds.
_STEPS_EACH = 200

Trace = Callable[[str], None]


class Propagation:
    """The queues of a network's propagators; a change of a variable wakes the ones that read it.

    Attributes:
        speaker: the name of what narrows domains now, if there is a trace.
    """

    def __init__(self, network: Network, budget: Budget, trace: Trace | None) -> None:
        self.network = network
        self.store = network.store
        self.budget = budget
        self.trace = trace
        # One plus the number of failures of each constraint; the last entry is for definitions.
        self._weights = [1] * (len(network.named) + 1)
        self.speaker = ""
        propagators = network.propagators
        self._done = [False] * len(propagators)
        self._finished: list[tuple[int, int]] = []
        # In a queue, or done.
        self._busy = [True] * len(propagators)
        self._queues: tuple[deque[int], deque[int], deque[int]] = (deque(), deque(), deque())
        self._queue = [self._queues[p.rank] for p in propagators]
        for i, queue in enumerate(self._queue):
            queue.append(i)
        if trace:
            self.store.narrate = self._narrate

    def _narrate(self, x: int, change: str) -> None:
        assert self.trace
        if x < len(self.network.declared):
            self.trace(f"{self.network.declared[x]}: {change}   by {self.speaker}")

    def run(self) -> int | None:
        """Run to the fixed point; return None, or the bits of the reasons of a failure."""
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
                # A propagator that settles is not woken by its own changes.
                if propagator.settles:
                    last = i
                else:
                    busy[i] = False
                if steps > most and propagator.rank < EXACT:
                    continue
                store.scope, store.bit, store.because = propagator.scope, propagator.bit, None
                if self.trace:
                    self.speaker = propagator.name
                if propagator.acts.revise(store):
                    done[i] = busy[i] = True
                    finished.append((len(trail), i))
                    if propagator.whole and not done[i + 1]:
                        # The next propagator is the exact one of the same constraint.
                        done[i + 1] = busy[i + 1] = True
                        finished.append((len(trail), i + 1))
        except Wipeout:
            propagator = propagators[i]
            self._weights[propagator.owner] += 1
            if self.trace:
                self.trace(f"fails: {propagator.name}")
            return store.reason()

    def clear(self) -> None:
        """Empty the queues after a failure."""
        for queue in self._queues:
            queue.clear()
        # Also clears the mark of the propagator that failed.
        self._busy[:] = self._done
        self.store.changed.clear()

    def active(self, x: int) -> list[int]:
        """The propagators that may still narrow a variable."""
        return [i for i in self.network.watchers[x] if not self._done[i]]

    def weight(self, x: int) -> int:
        """The sum of the weights of these propagators' constraints."""
        return sum(self._weights[self.network.propagators[i].owner] for i in self.active(x))

    def undo(self, mark: int) -> None:
        """Undo every change since the trail had this length."""
        self.store.undo(mark)
        finished = self._finished
        while finished and finished[-1][0] > mark:
            i = finished.pop()[1]
            self._done[i] = self._busy[i] = False
