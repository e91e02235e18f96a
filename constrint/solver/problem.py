"""`Problem`: a snapshot of a model, and the answers to its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from ..language.variable import Variable
from .budget import Budget
from .count import count
from .explain import clash, explained, explanation
from .explanation import Explanation
from .network import Named, Network
from .outcome import LimitReached, Unsatisfiable
from .propagation import Trace
from .relax import Relaxation, relax
from .search import Order, Search
from .solution import Solution

Key = TypeVar("Key", int, float, tuple[float, ...])

# Seconds. Printing an error should not take minutes to explain it.
_EXPLAINED_WITHIN = 10.0


@dataclass(frozen=True)
class Problem:
    """A snapshot of a model's variables and constraints; later declarations do not change it.

    `Model` describes the questions.
    """

    declared: tuple[Variable, ...]
    named: tuple[Named, ...]

    def first(self, order: Sequence[Order], budget: Budget, trace: Trace | None) -> Solution:
        """The first solution; raises `Unsatisfiable` if there is none."""
        search = Search(self._network(), order, budget, trace)
        for solution in self._each(search):
            return solution
        raise self._unsatisfiable(search.core)

    def solutions(self, order: Sequence[Order], budget: Budget) -> Iterator[Solution]:
        """All solutions."""
        return self._each(Search(self._network(), order, budget))

    def best(
        self, key: Callable[[Solution], Key], order: Sequence[Order], budget: Budget
    ) -> Solution:
        """The solution with the smallest key; raises `Unsatisfiable` if there is none."""
        best: Solution | None = None
        best_key: Key | None = None
        search = Search(self._network(), order, budget)
        try:
            for solution in self._each(search):
                cost = key(solution)
                if best_key is None or cost < best_key:
                    best, best_key = solution, cost
        except LimitReached as limit:
            limit.best = best
            raise
        if best is None:
            raise self._unsatisfiable(search.core)
        return best

    def count(self, budget: Budget) -> int:
        """The number of solutions."""
        try:
            return count(self.declared, self.named, budget)
        except LimitReached as limit:
            raise self._informed(limit) from None

    def explain(self, budget: Budget) -> Explanation:
        """Why there is no solution."""
        return self._explain("no solution", None, budget)

    def why(self, variable: Variable, value: int, budget: Budget) -> Explanation:
        """Why a variable cannot have a value."""
        subject = f"{variable} cannot be {value}"
        if value not in variable.domain:
            domains = (f"{variable} in {variable.domain}",)
            return Explanation(f"{subject}: it was declared without it", False, domains=domains)
        return self._explain(subject, Named("", variable == value), budget)

    def relax(self, target: Named, budget: Budget) -> Relaxation:
        """Return how far one bound must move."""
        try:
            return relax(self.declared, self.named, target, budget)
        except LimitReached as limit:
            raise self._informed(limit) from None

    def _network(self) -> Network:
        return Network(self.declared, self.named)

    def _each(self, search: Search) -> Iterator[Solution]:
        found, last = 0, None
        names = [v.name for v in self.declared]
        try:
            for values in search.run():
                found += 1
                last = Solution(dict(zip(names, values, strict=True)))
                yield last
        except LimitReached as limit:
            limit.found, limit.best = found, last
            raise self._informed(limit) from None

    def _informed(self, limit: LimitReached) -> LimitReached:
        """The error with the values that propagation leaves of each variable."""
        search = Search(self._network(), (), Budget(0.5))
        # Bounds are valid even if propagation does not finish.
        with suppress(LimitReached):
            search.settle()
        limit.bounds = tuple(f"{v} in {search.store.show(v.index)}" for v in self.declared)
        return limit

    def _unsatisfiable(self, core: int) -> Unsatisfiable:
        def explain() -> Explanation:
            found, minimal = clash(self.declared, self.named, core, Budget(_EXPLAINED_WITHIN))
            return explanation("no solution", self.declared, found, minimal)

        return Unsatisfiable(explain)

    def _explain(self, subject: str, assumed: Named | None, budget: Budget) -> Explanation:
        try:
            return explained(subject, self.declared, self.named, assumed, budget)
        except LimitReached as limit:
            raise self._informed(limit) from None
