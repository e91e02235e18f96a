"""The number of solutions, counted without listing independent values."""

from __future__ import annotations

from collections.abc import Sequence

from ..language.variable import Variable
from .budget import Budget
from .network import Named, Network
from .outcome import LimitReached
from .search import Order, Search


def count(declared: Sequence[Variable], named: Sequence[Named], budget: Budget) -> int:
    """The number of solutions, as a product over groups of variables that share no constraint.

    Raises:
        LimitReached: the budget is spent.
    """
    network = Network(declared, named, shared=False)
    search = Search(network, (), budget)
    if not search.settle():
        return 0
    store = network.store
    search.early = True
    total = 1
    groups = _groups(search, network, len(declared))
    for place, group in enumerate(groups, 1):
        search.order = [Order(x) for x in group]
        mark = len(store.trail)
        found = 0
        try:
            for _ in search.run():
                ways = 1
                for x in group:
                    ways *= store.size(x)
                found += ways
        except LimitReached as limit:
            # A later group may have no solution, so only the last group's count is certain.
            limit.found = total * found if place == len(groups) else 0
            raise
        if not found:
            return 0
        search.propagation.undo(mark)
        total *= found
    return total


def _groups(search: Search, network: Network, declared: int) -> list[list[int]]:
    """The free declared variables, grouped by the constraints that still connect them."""
    store = network.store
    leader = list(range(len(store.low)))

    def find(x: int) -> int:
        while leader[x] != x:
            leader[x] = leader[leader[x]]
            x = leader[x]
        return x

    free = [x for x in range(len(leader)) if store.low[x] != store.high[x]]
    for x in free:
        for i in search.propagation.active(x):
            for y in network.propagators[i].scope:
                if store.low[y] != store.high[y]:
                    leader[find(y)] = find(x)
    groups: dict[int, list[int]] = {}
    for x in (x for x in free if x < declared):
        groups.setdefault(find(x), []).append(x)
    return list(groups.values())
